// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Commands about the device: context, port, protection domains, addresses, memory. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "uverbs.h"

#define VENDOR_MELLANOX 0x2c9
#define PAGE_BYTES 4096ull
#define WIDTH_4X 2
#define PHYS_POLLING 2
#define PHYS_LINK_UP 5
#define IB_PORT_CAPS 0x2651e84a

int uv_get_context(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_OPEN_CTX };
	struct ib_uverbs_get_context_resp out = { .num_comp_vectors = HCA_COMP_VECTORS };
	int fd, rc = hca_app_ctl(&c);

	if (rc)
		return rc;
	fd = uv_event_file(UV_ASYNC, c.handle);
	if (fd < 0)
		return fd;
	f->ctx = c.handle;
	f->async_fd = fd;
	out.async_fd = (uint32_t)fd;
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	uv_driver()->context(io);
	return 0;
}

static void device(struct ib_uverbs_query_device_resp *r)
{
	const struct hca_device *d = &hca_device[hca->device];

	*r = (struct ib_uverbs_query_device_resp){
		.fw_ver = (uint64_t)d->fw_major << 32 | d->fw_minor << 16 | d->fw_sub,
		.node_guid = htobe64(hca_host_guid(hca_me->host)),
		.sys_image_guid = htobe64(hca_host_guid(hca_me->host)),
		.max_mr_size = UINT64_MAX, .page_size_cap = ~(PAGE_BYTES - 1),
		.vendor_id = VENDOR_MELLANOX, .vendor_part_id = d->part_id,
		.max_qp = HCA_MAX_QPS - HCA_FIRST_QPN, .max_qp_wr = d->max_qp_wr,
		.device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
				    IBV_DEVICE_CHANGE_PHY_PORT |
				    IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN,
		.max_sge = HCA_MAX_SGE, .max_sge_rd = HCA_MAX_SGE, .max_cq = HCA_MAX_CQS - 1,
		.max_cqe = HCA_MAX_CQE, .max_mr = HCA_MAX_MRS - 1, .max_pd = HCA_MAX_PDS - 1,
		.max_qp_rd_atom = 16, .max_res_rd_atom = 1 << 18, .max_qp_init_rd_atom = 16,
		.atomic_cap = IBV_ATOMIC_HCA, .max_ah = INT32_MAX,
		.max_srq = HCA_MAX_SRQS - 1, .max_srq_wr = HCA_MAX_SRQ_WR,
		.max_srq_sge = HCA_MAX_SGE + 1, .max_pkeys = 1, .local_ca_ack_delay = 16,
		.phys_port_cnt = 1,
	};
}

int uv_query_device(struct uv_file *f, struct uv_io *io)
{
	struct ib_uverbs_ex_query_device_resp out = {
		.response_length = sizeof(out),
	};

	(void)f;
	device(&out.base);
	if (uv_driver()->has_timestamps) {
		out.timestamp_mask = UINT64_MAX;
		out.hca_core_clock = 1000000;	/* kHz: completion times are nanoseconds */
	}
	if (!io->ex) {
		uv_put(io->out, io->out_bytes, &out.base, sizeof(out.base));
		return 0;
	}
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	uv_driver()->device(io);
	return 0;
}

/* The IB speed code per lane that comes nearest to the model's link. */
static uint8_t speed_code(void)
{
	if (hca->link_gbps <= 40)
		return 4;	/* QDR */
	if (hca->link_gbps <= 56)
		return 16;	/* FDR */
	return 32;		/* EDR */
}

int uv_query_port(struct uv_file *f, struct uv_io *io)
{
	struct ib_uverbs_query_port in;
	struct ib_uverbs_query_port_resp out = {
		.max_msg_sz = HCA_MAX_MSG_BYTES, .gid_tbl_len = HCA_GID_TBL_LEN,
		.pkey_tbl_len = 1, .state = IBV_PORT_ACTIVE, .max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096, .max_vl_num = 4, .subnet_timeout = 18,
		.active_width = WIDTH_4X, .active_speed = speed_code(),
		.phys_state = PHYS_LINK_UP,
	};

	(void)f;
	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	if (in.port_num != 1)
		return -EINVAL;
	if (hca->host[hca_me->host].port_down) {
		out.state = IBV_PORT_DOWN;
		out.phys_state = PHYS_POLLING;
	}
	if (hca->is_eth) {
		out.link_layer = IBV_LINK_LAYER_ETHERNET;
		out.port_cap_flags = hca_device[hca->device].eth_port_caps;
	} else {
		out.link_layer = IBV_LINK_LAYER_INFINIBAND;
		out.port_cap_flags = IB_PORT_CAPS;
		out.lid = hca_host_lid(hca_me->host);
		out.sm_lid = hca_host_lid(0);
	}
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	return 0;
}

static int ctl_handle(struct uv_file *f, uint32_t op, uint32_t *handle)
{
	struct hca_ctl c = { .op = op, .ctx = f->ctx, .handle = *handle };
	int rc = hca_app_ctl(&c);

	*handle = c.handle;
	return rc;
}

int uv_alloc_pd(struct uv_file *f, struct uv_io *io)
{
	struct ib_uverbs_alloc_pd_resp out = { .pd_handle = 0 };
	int rc = ctl_handle(f, HCA_CTL_ALLOC_PD, &out.pd_handle);

	if (rc)
		return rc;
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	uv_driver()->pd(io, out.pd_handle);
	return 0;
}

int uv_dealloc_pd(struct uv_file *f, struct uv_io *io)
{
	struct ib_uverbs_dealloc_pd in;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	return ctl_handle(f, HCA_CTL_DEALLOC_PD, &in.pd_handle);
}

/* On Ethernet the kernel resolves the peer's MAC; the handle means nothing to the card. */
int uv_create_ah(struct uv_file *f, struct uv_io *io)
{
	struct ib_uverbs_create_ah_resp out = { .ah_handle = 1 };
	struct ib_uverbs_create_ah in;
	uint8_t mac[6];
	int host;

	(void)f;
	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	if (in.attr.port_num != 1 || (hca->is_eth && !in.attr.is_global))
		return -EINVAL;
	host = hca->is_eth ? hca_host_of_gid(in.attr.grh.dgid) : 0;
	if (host < 0)
		return -EHOSTUNREACH;
	hca_host_mac((uint32_t)host, mac);
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	if (uv_driver()->ah)
		uv_driver()->ah(io, mac);
	return 0;
}

int uv_destroy_ah(struct uv_file *f, struct uv_io *io)
{
	(void)f;
	(void)io;
	return 0;
}

/* Is there memory? Stands for the kernel's pinning of the pages. */
static int check_memory(uint64_t start, uint64_t length, uint64_t va)
{
	uint64_t first = start & ~(PAGE_BYTES - 1);

	if ((start ^ va) & (PAGE_BYTES - 1))
		return -EINVAL;
	if (start + length < start)
		return -EINVAL;
	if (length && msync((void *)(uintptr_t)first, start + length - first, MS_ASYNC))
		return -EFAULT;
	return 0;
}

int uv_reg_mr(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_REG_MR, .ctx = f->ctx };
	struct ib_uverbs_reg_mr_resp out;
	struct ib_uverbs_reg_mr in;
	int rc;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	if (in.access_flags & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_MW_BIND))
		return -EOPNOTSUPP;
	rc = check_memory(in.start, in.length, in.hca_va);
	if (rc)
		return rc;
	c.u.mr = (struct hca_ctl_mr){ .start = in.start, .va = in.hca_va,
				      .length = in.length, .pd = in.pd_handle,
				      .access = in.access_flags };
	rc = hca_app_ctl(&c);
	if (rc)
		return rc;
	out = (struct ib_uverbs_reg_mr_resp){ .mr_handle = c.handle, .lkey = c.u.mr.key,
					      .rkey = c.u.mr.key };
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	return 0;
}

int uv_rereg_mr(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_REREG_MR, .ctx = f->ctx };
	struct ib_uverbs_rereg_mr_resp out;
	struct ib_uverbs_rereg_mr in;
	int rc = 0;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	if (in.flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		rc = in.length ? check_memory(in.start, in.length, in.hca_va) : -EINVAL;
	if (rc)
		return rc;
	c.handle = in.mr_handle;
	c.u.mr = (struct hca_ctl_mr){ .start = in.start, .va = in.hca_va,
				      .length = in.length, .pd = in.pd_handle,
				      .access = in.access_flags, .flags = in.flags };
	rc = hca_app_ctl(&c);
	if (rc)
		return rc;
	out = (struct ib_uverbs_rereg_mr_resp){ .lkey = c.u.mr.key, .rkey = c.u.mr.key };
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	return 0;
}

int uv_dereg_mr(struct uv_file *f, struct uv_io *io)
{
	struct ib_uverbs_dereg_mr in;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	return ctl_handle(f, HCA_CTL_DEREG_MR, &in.mr_handle);
}

int uv_create_comp_channel(struct uv_file *f, struct uv_io *io)
{
	struct ib_uverbs_create_comp_channel_resp out;
	int fd = uv_event_file(UV_COMP, f->ctx);

	if (fd < 0)
		return fd;
	out.fd = (uint32_t)fd;
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	return 0;
}
