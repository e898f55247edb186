/* SPDX-License-Identifier: MIT */
/* How ctf2.c tells resolve.c where a length or selector stands. */
#ifndef RUT_CTF_CTF2_H
#define RUT_CTF_CTF2_H

#define RUT_CTF2_SEP '\x1f' /* between names */
#define RUT_CTF2_UP  '\x1d' /* the structure around */

#endif
