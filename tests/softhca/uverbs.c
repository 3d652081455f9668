// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Decoding of uverbs commands, with the checks the kernel makes before a handler runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "uverbs.h"

#define MAX_FILES 65536
#define COMMANDS 64

static struct uv_file files[MAX_FILES];

struct command {
	uint16_t in, out;	/* sizes of the core structures; out 0 = no answer */
	uint16_t ex_in;		/* smallest extended request; 0 = no extended form */
	uv_handler *run;
};

#define IN(t) sizeof(struct ib_uverbs_##t)
#define OUT(t) sizeof(struct ib_uverbs_##t##_resp)
#define CMD(name, t, handler) \
	[IB_USER_VERBS_CMD_##name] = { IN(t), OUT(t), 0, handler }
#define CMD_EX(name, t, ex, handler) \
	[IB_USER_VERBS_CMD_##name] = { IN(t), OUT(t), ex, handler }
#define CMD_SILENT(name, t, ex, handler) \
	[IB_USER_VERBS_CMD_##name] = { IN(t), 0, ex, handler }

static const struct command commands[COMMANDS] = {
	CMD(GET_CONTEXT, get_context, uv_get_context),
	CMD_EX(QUERY_DEVICE, query_device, IN(ex_query_device), uv_query_device),
	CMD(QUERY_PORT, query_port, uv_query_port),
	CMD(ALLOC_PD, alloc_pd, uv_alloc_pd),
	CMD_SILENT(DEALLOC_PD, dealloc_pd, 0, uv_dealloc_pd),
	CMD(CREATE_AH, create_ah, uv_create_ah),
	CMD_SILENT(DESTROY_AH, destroy_ah, 0, uv_destroy_ah),
	CMD(REG_MR, reg_mr, uv_reg_mr),
	CMD(REREG_MR, rereg_mr, uv_rereg_mr),
	CMD_SILENT(DEREG_MR, dereg_mr, 0, uv_dereg_mr),
	CMD(CREATE_COMP_CHANNEL, create_comp_channel, uv_create_comp_channel),
	CMD_EX(CREATE_CQ, create_cq, IN(ex_create_cq), uv_create_cq),
	CMD(RESIZE_CQ, resize_cq, uv_resize_cq),
	CMD(DESTROY_CQ, destroy_cq, uv_destroy_cq),
	CMD_EX(CREATE_QP, create_qp, offsetof(struct ib_uverbs_ex_create_qp, comp_mask),
	       uv_create_qp),
	CMD_SILENT(MODIFY_QP, modify_qp, IN(modify_qp), uv_modify_qp),
	CMD(QUERY_QP, query_qp, uv_query_qp),
	CMD(DESTROY_QP, destroy_qp, uv_destroy_qp),
	CMD(CREATE_SRQ, create_srq, uv_create_srq),
	CMD_SILENT(MODIFY_SRQ, modify_srq, 0, uv_modify_srq),
	CMD(QUERY_SRQ, query_srq, uv_query_srq),
	CMD(DESTROY_SRQ, destroy_srq, uv_destroy_srq),
};

void uv_get(void *to, size_t bytes, const void *from, size_t have)
{
	size_t n = have < bytes ? have : bytes;

	memset(to, 0, bytes);
	if (n)
		memcpy(to, from, n);
}

void uv_put(void *to, size_t room, const void *from, size_t bytes)
{
	if (to && room)
		memcpy(to, from, bytes < room ? bytes : room);
}

struct uv_file *uv_file(int fd)
{
	return fd >= 0 && fd < MAX_FILES && files[fd].kind ? &files[fd] : NULL;
}

int uv_adopt(int fd)
{
	if (fd >= MAX_FILES)
		return -EMFILE;
	files[fd] = (struct uv_file){ .kind = UV_CMD, .pid = hca_self, .async_fd = -1 };
	return 0;
}

/* As the kernel does: the end of a command file is the end of its objects. */
void uv_close(int fd)
{
	struct uv_file *f = uv_file(fd);
	struct hca_ctl c = { .op = HCA_CTL_CLOSE_CTX };

	if (!f)
		return;
	c.ctx = f->ctx;
	if (f->kind != UV_CMD) {
		c.op = HCA_CTL_DESTROY_CHAN;
		c.handle = f->chan;
	}
	if (f->pid == hca_self && f->ctx) {
		hca_app_ctl(&c);
		if (f->kind == UV_CMD)
			uv_obj_forget_ctx(f->ctx);
	}
	memset(f, 0, sizeof(*f));
}

void uv_note_event_file(int fd, uint8_t kind, uint32_t ctx, uint32_t chan)
{
	files[fd] = (struct uv_file){ .kind = kind, .pid = hca_self, .ctx = ctx,
				      .chan = chan, .async_fd = -1 };
}

const struct uv_driver *uv_driver(void)
{
	return hca->device == HCA_MLX4 ? &uv_mlx4 : &uv_mlx5;
}

static const struct command *lookup(uint32_t code, bool ex)
{
	const struct command *c = code < COMMANDS ? &commands[code] : NULL;

	if (!c || !c->run || (ex && !c->ex_in))
		return NULL;
	return c;
}

static int run(struct uv_file *f, uint32_t code, struct uv_io *io)
{
	const struct command *c = lookup(code, io->ex);

	if (!c)
		return -EOPNOTSUPP;
	if (f->pid != hca_self)
		return -EIO;
	if (!f->ctx != (code == IB_USER_VERBS_CMD_GET_CONTEXT))
		return -EINVAL;
	if (io->in_bytes < (io->ex ? c->ex_in : c->in))
		return -EINVAL;
	if (!io->ex && io->out_bytes < c->out)
		return -ENOSPC;
	return c->run(f, io);
}

static int write_plain(struct uv_file *f, const struct ib_uverbs_cmd_hdr *h, size_t bytes)
{
	uint32_t code = h->command & IB_USER_VERBS_CMD_COMMAND_MASK;
	const struct command *c = lookup(code, false);
	struct uv_io io = { .in = h + 1 };
	uint64_t response;

	if (!c)
		return -EOPNOTSUPP;
	if (h->in_words * 4u != bytes || bytes < sizeof(*h) + c->in)
		return -EINVAL;
	io.in_bytes = c->in;
	io.uin = (const uint8_t *)io.in + c->in;
	io.uin_bytes = bytes - sizeof(*h) - c->in;
	if (c->out) {
		if (h->out_words * 4u < c->out)
			return -ENOSPC;
		memcpy(&response, io.in, sizeof(response));
		io.out = (void *)(uintptr_t)response;
		io.out_bytes = c->out;
		io.uout = (uint8_t *)io.out + c->out;
		io.uout_bytes = h->out_words * 4u - c->out;
	}
	return run(f, code, &io);
}

static int write_extended(struct uv_file *f, const struct ib_uverbs_cmd_hdr *h, size_t bytes)
{
	const struct ib_uverbs_ex_cmd_hdr *e = (const void *)(h + 1);
	struct uv_io io = { .ex = true };

	if (bytes < sizeof(*h) + sizeof(*e) ||
	    (h->in_words + e->provider_in_words) * 8u != bytes - sizeof(*h) - sizeof(*e) ||
	    e->cmd_hdr_reserved)
		return -EINVAL;
	io.in = e + 1;
	io.in_bytes = h->in_words * 8u;
	io.uin = (const uint8_t *)io.in + io.in_bytes;
	io.uin_bytes = e->provider_in_words * 8u;
	io.out = (void *)(uintptr_t)e->response;
	io.out_bytes = h->out_words * 8u;
	io.uout = (uint8_t *)io.out + io.out_bytes;
	io.uout_bytes = e->provider_out_words * 8u;
	return run(f, h->command & IB_USER_VERBS_CMD_COMMAND_MASK, &io);
}

ssize_t uv_write(int fd, const void *buf, size_t bytes)
{
	const struct ib_uverbs_cmd_hdr *h = buf;
	struct uv_file *f = uv_file(fd);
	int rc = -EINVAL;

	if (bytes >= sizeof(*h))
		rc = h->command & IB_USER_VERBS_CMD_FLAG_EXTENDED ?
		     write_extended(f, h, bytes) : write_plain(f, h, bytes);
	if (!rc)
		return (ssize_t)bytes;
	errno = -rc;
	return -1;
}

static struct ib_uverbs_attr *attr(struct ib_uverbs_ioctl_hdr *h, uint16_t id)
{
	for (uint16_t i = 0; i < h->num_attrs; i++)
		if (h->attrs[i].attr_id == id)
			return &h->attrs[i];
	return NULL;
}

/* Up to eight bytes of input lie in the attribute itself. */
static const void *attr_in(const struct ib_uverbs_attr *a, size_t *bytes)
{
	*bytes = a ? a->len : 0;
	if (!a)
		return NULL;
	return a->len <= sizeof(a->data) ? (const void *)&a->data :
					   (const void *)(uintptr_t)a->data;
}

static void *attr_out(struct ib_uverbs_attr *a, size_t *bytes)
{
	*bytes = a ? a->len : 0;
	if (!a)
		return NULL;
	a->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return (void *)(uintptr_t)a->data;
}

static bool wants_write_only(void)
{
	const char *abi = getenv("SOFTHCA_ABI");

	return abi && !strcmp(abi, "write");
}

static int invoke_write(struct uv_file *f, struct ib_uverbs_ioctl_hdr *h)
{
	struct ib_uverbs_attr *cmd = attr(h, UVERBS_ATTR_WRITE_CMD);
	struct ib_uverbs_attr *in = attr(h, UVERBS_ATTR_CORE_IN);
	struct ib_uverbs_attr *out = attr(h, UVERBS_ATTR_CORE_OUT);
	struct uv_io io = { .ex = false };
	uint32_t code;

	if (!cmd)
		return -EINVAL;
	code = (uint32_t)cmd->data;
	/* The library asks with nothing but a command whether the method exists. */
	if (!in && !out)
		return -ENOSPC;
	io.in = attr_in(in, &io.in_bytes);
	io.out = attr_out(out, &io.out_bytes);
	io.uin = attr_in(attr(h, UVERBS_ATTR_UHW_IN), &io.uin_bytes);
	io.uout = attr_out(attr(h, UVERBS_ATTR_UHW_OUT), &io.uout_bytes);
	io.ex = code & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	return run(f, code & IB_USER_VERBS_CMD_COMMAND_MASK, &io);
}

/* Everything else has an older form that the library falls back to on this errno. */
int uv_ioctl(int fd, struct ib_uverbs_ioctl_hdr *h)
{
	int rc = -EPROTONOSUPPORT;

	if (h->object_id == UVERBS_OBJECT_DEVICE &&
	    h->method_id == UVERBS_METHOD_INVOKE_WRITE && !wants_write_only())
		rc = invoke_write(uv_file(fd), h);
	if (!rc)
		return 0;
	errno = -rc;
	return -1;
}
