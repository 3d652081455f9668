/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Doorbell pages: mapped without access, so that every store to one is seen. */
#ifndef HCA_TRAP_H
#define HCA_TRAP_H

#include <stddef.h>
#include <stdint.h>

/* Pages from @number on among those of the command file; 0 or -ENOMEM. */
int hca_trap_add(void *addr, size_t bytes, uint32_t number);
void hca_trap_del(void *addr, size_t bytes);

#endif
