/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The cards that can be imitated: what tells one from another before it does any work. */
#ifndef SOFTHCA_DEVICE_H
#define SOFTHCA_DEVICE_H

#include <stdint.h>

enum hca_device_kind { HCA_MLX5, HCA_MLX4, HCA_DEVICES };

struct hca_device {
	const char *driver;		/* as --device names it */
	const char *name;		/* of the device on every host */
	const char *modalias;		/* by which libibverbs finds the driver */
	const char *pci_device, *hca_type, *board_id;
	uint32_t uverbs_abi;
	uint32_t part_id;		/* by which perftest knows what it may expect */
	uint32_t fw_major, fw_minor, fw_sub;
	uint32_t max_qp_wr;
	uint32_t eth_port_caps;		/* port_cap_flags, as verbs know them */
};

extern const struct hca_device hca_device[HCA_DEVICES];

#endif
