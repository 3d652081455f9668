/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The application's side of the segment: attaching, doorbells, commands, sleeping. */
#ifndef HCA_APP_H
#define HCA_APP_H

#include "hca.h"

extern struct hca_proc *hca_me;		/* NULL: not attached */

int hca_app_attach(void);		/* idempotent; 0 or negative errno */
int hca_app_ctl(struct hca_ctl *c);	/* 0 or negative errno; answers in *c */
/* A store of @bytes to a doorbell page. Async-signal-safe. */
void hca_app_uar_store(uint32_t offset, uint64_t value, uint32_t bytes);
/* After an empty poll: may sleep. true = look again, something may have come. */
bool hca_app_idle(void);

#endif
