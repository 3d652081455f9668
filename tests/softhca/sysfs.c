// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The sysfs tree of an emulated host. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sysfs.h"

/* A directory of the tree, and the first error met in it: later writes do nothing. */
struct tree {
	char root[HCA_PATH_LEN];
	const struct hca_device *device;
	int rc;
};

/* Makes every directory above path, which lies under the root. */
static int make_parents(const char *path, size_t root_length)
{
	char dir[HCA_PATH_LEN + 256];

	snprintf(dir, sizeof(dir), "%s", path);
	for (char *p = strchr(dir + root_length, '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		if (mkdir(dir, 0755) && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return 0;
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	size_t length = strlen(text);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, text, length);
	close(fd);
	return n == (ssize_t)length ? 0 : -EIO;
}

/* @format under the root, where %s in it is the device's name. */
static void path_of(struct tree *t, const char *format, char *out, size_t out_size)
{
	int n = snprintf(out, out_size, "%s/", t->root);

	if (n < (int)out_size)
		n += snprintf(out + n, out_size - (size_t)n, format, t->device->name,
			      t->device->name);
	t->rc = n < (int)out_size ? make_parents(out, strlen(t->root)) : -ENAMETOOLONG;
}

/* One attribute: name under the root, its text and a newline. */
__attribute__((format(printf, 3, 4)))
static void put(struct tree *t, const char *name, const char *format, ...)
{
	char path[HCA_PATH_LEN + 256], text[256];
	va_list args;
	int n;

	if (t->rc)
		return;
	va_start(args, format);
	n = vsnprintf(text, sizeof(text) - 1, format, args);
	va_end(args);
	strcpy(text + n, "\n");
	path_of(t, name, path, sizeof(path));
	if (!t->rc)
		t->rc = write_text(path, text);
}

static void put_link(struct tree *t, const char *name, const char *target)
{
	char path[HCA_PATH_LEN + 256];

	if (t->rc)
		return;
	path_of(t, name, path, sizeof(path));
	if (!t->rc && symlink(target, path) && errno != EEXIST)
		t->rc = -errno;
}

#define IB "class/infiniband/%s/"
#define PORT IB "ports/1/"
#define UVERBS "class/infiniband_verbs/" HCA_UVERBS_NAME "/"

static void put_guid(struct tree *t, const char *name, uint64_t guid)
{
	put(t, name, "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
	    (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
	    (unsigned int)(guid & 0xffff));
}

static void put_uverbs(struct tree *t)
{
	char target[64];

	put(t, "class/infiniband_verbs/abi_version", "6");
	put(t, UVERBS "ibdev", "%s", t->device->name);
	put(t, UVERBS "dev", HCA_UVERBS_DEV);
	put(t, UVERBS "abi_version", "%u", t->device->uverbs_abi);
	snprintf(target, sizeof(target), "../../infiniband/%s/device", t->device->name);
	put_link(t, UVERBS "device", target);
}

static void put_pci(struct tree *t)
{
	put(t, IB "device/modalias", "%s", t->device->modalias);
	put(t, IB "device/vendor", "0x15b3");
	put(t, IB "device/device", "%s", t->device->pci_device);
	put(t, IB "device/subsystem_vendor", "0x15b3");
	put(t, IB "device/subsystem_device", "0x0007");
	put(t, IB "device/class", "0x020700");
	put(t, IB "device/numa_node", "-1");
	put(t, IB "device/local_cpulist", "0-%ld", sysconf(_SC_NPROCESSORS_CONF) - 1);
	put(t, IB "device/max_link_speed", "8.0 GT/s PCIe");
	put(t, IB "device/max_link_width", "16");
	put_link(t, IB "device/infiniband/%s", "../..");
	put_link(t, IB "device/infiniband_verbs/" HCA_UVERBS_NAME,
		 "../../../../infiniband_verbs/" HCA_UVERBS_NAME);
}

static void put_device(struct tree *t, const struct hca_config *c, uint32_t host)
{
	put(t, IB "node_type", "1: CA");
	put_guid(t, IB "node_guid", hca_host_guid(host));
	put_guid(t, IB "sys_image_guid", hca_host_guid(host));
	put(t, IB "node_desc", "%s %s", c->host[host], t->device->name);
	put(t, IB "fw_ver", "%u.%u.%04u", t->device->fw_major, t->device->fw_minor,
	    t->device->fw_sub);
	put(t, IB "hw_rev", "0");
	put(t, IB "hca_type", "%s", t->device->hca_type);
	put(t, IB "board_id", "%s", t->device->board_id);
}

static const char *speed_name(uint32_t gbps)
{
	return gbps <= 40 ? "QDR" : gbps <= 56 ? "FDR" : gbps <= 100 ? "EDR" : "HDR";
}

static void put_port_state(struct tree *t, int is_down)
{
	put(t, PORT "state", is_down ? "1: DOWN" : "4: ACTIVE");
	put(t, PORT "phys_state", is_down ? "2: Polling" : "5: LinkUp");
}

static void put_port(struct tree *t, const struct hca_config *c, uint32_t host)
{
	put_port_state(t, 0);
	put(t, PORT "rate", "%u Gb/sec (4X %s)", c->nic.link_gbps,
	    speed_name(c->nic.link_gbps));
	put(t, PORT "link_layer", "%s", c->is_eth ? "Ethernet" : "InfiniBand");
	put(t, PORT "lid", "0x%x", c->is_eth ? 0 : hca_host_lid(host));
	put(t, PORT "lid_mask_count", "0");
	put(t, PORT "sm_lid", "0x%x", c->is_eth ? 0 : hca_host_lid(0));
	put(t, PORT "sm_sl", "0");
	put(t, PORT "cap_mask", "0x%08x", c->is_eth ? t->device->eth_port_caps : 0x2651e84au);
	put(t, PORT "pkeys/0", "0xffff");
}

static void put_gid(struct tree *t, const struct hca_config *c, uint32_t host, uint32_t index)
{
	char name[64], text[48];
	uint8_t gid[16];
	int is_used = !hca_host_gid(host, c->is_eth, index, gid), n = 0;

	for (int b = 0; b < 16; b += 2)
		n += snprintf(text + n, sizeof(text) - n, "%s%02x%02x", b ? ":" : "", gid[b],
			      gid[b + 1]);
	snprintf(name, sizeof(name), PORT "gids/%u", "%s", index);
	put(t, name, "%s", text);
	snprintf(name, sizeof(name), PORT "gid_attrs/types/%u", "%s", index);
	put(t, name, c->is_eth && index & 1 ? "RoCE v2" : "IB/RoCE v1");
	if (!c->is_eth || !is_used)
		return;
	/* Must be a network device of this machine: libibverbs asks for its index. */
	snprintf(name, sizeof(name), PORT "gid_attrs/ndevs/%u", "%s", index);
	put(t, name, "lo");
}

int hca_sysfs_path(const struct hca_config *c, const char *world, uint32_t host, char *out,
		   size_t out_size)
{
	int n = snprintf(out, out_size, "%s/hosts/%s/sysfs", world, c->host[host]);

	return n < (int)out_size ? 0 : -ENAMETOOLONG;
}

int hca_sysfs_set_port(const struct hca_config *c, const char *world, uint32_t host, int is_down)
{
	struct tree t = { .device = &hca_device[c->device] };

	t.rc = hca_sysfs_path(c, world, host, t.root, sizeof(t.root));
	put_port_state(&t, is_down);
	return t.rc;
}

int hca_sysfs_make(const struct hca_config *c, const char *world, uint32_t host)
{
	struct tree t = { .device = &hca_device[c->device] };

	t.rc = hca_sysfs_path(c, world, host, t.root, sizeof(t.root));
	if (!t.rc)
		t.rc = make_parents(t.root, strlen(world));
	if (!t.rc && mkdir(t.root, 0755) && errno != EEXIST)
		t.rc = -errno;
	put_uverbs(&t);
	put_pci(&t);
	put_device(&t, c, host);
	put_port(&t, c, host);
	for (uint32_t i = 0; i < HCA_GID_TBL_LEN; i++)
		put_gid(&t, c, host, i);
	return t.rc;
}
