/* SPDX-License-Identifier: MIT */
/* How ctf2_class.c passes the location of a length or selector to resolve.c. */
#ifndef RUT_CTF_CTF2_H
#define RUT_CTF_CTF2_H

#define RUT_CTF2_SEP '\x1f' /* between names */
#define RUT_CTF2_UP  '\x1d' /* the structure around */

#endif
