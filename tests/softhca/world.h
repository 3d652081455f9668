/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Life of a world: its directory, its card process, its end. */
#ifndef SOFTHCA_WORLD_H
#define SOFTHCA_WORLD_H

#include <stddef.h>
#include <sys/types.h>

#include "config.h"

/*
 * Makes the directory (private to the user), the files and the card process; returns once
 * applications may attach.  world becomes absolute.  -EBUSY when it is up already.
 */
int hca_world_up(const struct hca_config *c, char world[HCA_PATH_LEN], char *err,
		 size_t err_size);
/* Ends the card process and removes the files.  -ENOENT when there was no world. */
int hca_world_down(const char *world, char *err, size_t err_size);
/* The card process of a world that is up; 0 when it is not; or -errno. */
pid_t hca_world_card(const char *world);

#endif
