// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "device.h"

const struct hca_device hca_device[HCA_DEVICES] = {
	[HCA_MLX5] = {
		.driver = "mlx5", .name = "mlx5_0",
		.modalias = "pci:v000015B3d00001017sv000015B3sd00000007bc02sc07i00",
		.pci_device = "0x1017", .hca_type = "MT4119", .board_id = "HCA_0000000001",
		.uverbs_abi = 1, .part_id = 4119, .fw_major = 16, .fw_minor = 35, .fw_sub = 2000,
		.max_qp_wr = 32768, .eth_port_caps = 0x04010000,
	},
	[HCA_MLX4] = {
		.driver = "mlx4", .name = "mlx4_0",
		.modalias = "pci:v000015B3d00001003sv000015B3sd00000007bc02sc80i00",
		.pci_device = "0x1003", .hca_type = "MT4099", .board_id = "HCA_0000000002",
		.uverbs_abi = 4, .part_id = 4099, .fw_major = 2, .fw_minor = 42, .fw_sub = 5000,
		.max_qp_wr = 16351,	/* the rest of 16384 is the prefetcher's */
		/* No IP based GIDs: libmlx4 would ask this machine's network for their MACs. */
		.eth_port_caps = 0x00010000,
	},
};
