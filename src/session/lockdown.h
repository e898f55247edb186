/* SPDX-License-Identifier: MIT */
#ifndef RUT_SESSION_LOCKDOWN_H
#define RUT_SESSION_LOCKDOWN_H

/*
 * Keeps libbpf from breaking programs under lockdown 'confidentiality'. To be called before an
 * object is opened; does nothing on other kernels.
 */
void rut_lockdown_prepare(void);

#endif
