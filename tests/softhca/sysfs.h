/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The sysfs tree of an emulated host: what libibverbs and others read to find its device. */
#ifndef SOFTHCA_SYSFS_H
#define SOFTHCA_SYSFS_H

#include <stdint.h>

#include "config.h"

#define HCA_UVERBS_NAME "uverbs0"
/*
 * The device number of the uverbs node is that of /dev/null: libibverbs insists on a character
 * device with the number that sysfs says, and the shim opens /dev/null in its place.
 */
#define HCA_UVERBS_DEV "1:3"

/* Makes world/hosts/<name>/sysfs anew.  0 or -errno. */
int hca_sysfs_make(const struct hca_config *c, const char *world, uint32_t host);
/* What is read of the port's state from now on.  0 or -errno. */
int hca_sysfs_set_port(const struct hca_config *c, const char *world, uint32_t host, int is_down);
/* world/hosts/<name>/sysfs; 0 or -ENAMETOOLONG */
int hca_sysfs_path(const struct hca_config *c, const char *world, uint32_t host, char *out,
		   size_t out_size);

#endif
