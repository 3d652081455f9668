// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* test_sysfs.c - the sysfs tree of an emulated host says which card it has. */
#include <ftw.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "../softhca/config.h"
#include "../softhca/sysfs.h"
#include "unit.h"

static struct hca_config c;
static char world[] = "/tmp/test-sysfs-XXXXXX", root[HCA_PATH_LEN];

static void expect(const char *name, const char *text)
{
	char path[2 * HCA_PATH_LEN], line[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	f = fopen(path, "r");
	ck_assert_msg(f, "%s is not there", name);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	fclose(f);
	line[strcspn(line, "\n")] = 0;
	ck_assert_msg(!strncmp(line, text, strlen(text)), "%s: '%s', not '%s'", name, line, text);
}

static bool exists(const char *name)
{
	char path[2 * HCA_PATH_LEN];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return !access(path, F_OK);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void make(enum hca_device_kind kind)
{
	hca_config_default(&c);
	c.device = kind;
	strcpy(world + sizeof(world) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(world));
	ck_assert_int_eq(hca_sysfs_path(&c, world, 1, root, sizeof(root)), 0);
	ck_assert_int_eq(hca_sysfs_make(&c, world, 1), 0);
}

static void clean(void)
{
	ck_assert_int_eq(nftw(world, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

START_TEST(an_mlx5_card)
{
	make(HCA_MLX5);
	expect("class/infiniband_verbs/uverbs0/ibdev", "mlx5_0");
	expect("class/infiniband_verbs/uverbs0/abi_version", "1");
	expect("class/infiniband_verbs/uverbs0/device/modalias", "pci:v000015B3d00001017sv");
	expect("class/infiniband/mlx5_0/ports/1/lid", "0x2");
	expect("class/infiniband/mlx5_0/fw_ver", "16.35.2000");
	ck_assert(!exists("class/infiniband/mlx4_0"));
	clean();
}
END_TEST

START_TEST(an_mlx4_card)
{
	make(HCA_MLX4);
	expect("class/infiniband_verbs/uverbs0/ibdev", "mlx4_0");
	expect("class/infiniband_verbs/uverbs0/abi_version", "4");
	expect("class/infiniband_verbs/uverbs0/device/modalias", "pci:v000015B3d00001003sv");
	expect("class/infiniband_verbs/uverbs0/device/device", "0x1003");
	expect("class/infiniband/mlx4_0/hca_type", "MT4099");
	expect("class/infiniband/mlx4_0/ports/1/gids/0", "fe80:0000:");
	expect("class/infiniband/mlx4_0/node_desc", "b mlx4_0");
	ck_assert(exists("class/infiniband/mlx4_0/device/infiniband/mlx4_0/node_guid"));
	ck_assert(!exists("class/infiniband/mlx5_0"));
	clean();
}
END_TEST

T_MAIN("sysfs", an_mlx5_card, an_mlx4_card)
