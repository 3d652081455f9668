/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The kernel's uverbs interface, answered inside the application: command files, event
 * files, write() commands and the INVOKE_WRITE ioctl that carries the same structures.
 */
#ifndef HCA_UVERBS_H
#define HCA_UVERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "app.h"

struct ib_uverbs_ioctl_hdr;

enum uv_kind { UV_NONE, UV_CMD, UV_COMP, UV_ASYNC };

/* What a descriptor of this process is. */
struct uv_file {
	uint8_t kind;
	pid_t pid;		/* who opened it: a forked child may not use it */
	uint32_t ctx;		/* CMD, ASYNC: the context, 0 before GET_CONTEXT */
	uint32_t chan;		/* COMP, ASYNC */
	int async_fd;		/* CMD */
};

struct uv_file *uv_file(int fd);	/* NULL: none of ours */
int uv_adopt(int fd);			/* a fresh command file; 0 or negative errno */
void uv_note_event_file(int fd, uint8_t kind, uint32_t ctx, uint32_t chan);
void uv_close(int fd);
ssize_t uv_write(int fd, const void *buf, size_t bytes);	/* -1 and errno, as write() */
int uv_ioctl(int fd, struct ib_uverbs_ioctl_hdr *h);		/* -1 and errno */
void uv_was_read(int fd, const void *buf, ssize_t bytes);	/* counts delivered events */

/* One command: core and driver part of the request and of the answer. */
struct uv_io {
	const void *in, *uin;
	void *out, *uout;
	size_t in_bytes, uin_bytes, out_bytes, uout_bytes;
	bool ex;
};

void uv_get(void *to, size_t bytes, const void *from, size_t have);	/* rest is zeroed */
void uv_put(void *to, size_t room, const void *from, size_t bytes);

/* All handlers: 0 or negative errno. */
typedef int uv_handler(struct uv_file *f, struct uv_io *io);

/* uverbs_dev.c */
uv_handler uv_get_context, uv_query_device, uv_query_port, uv_alloc_pd, uv_dealloc_pd,
	   uv_create_ah, uv_destroy_ah, uv_reg_mr, uv_rereg_mr, uv_dereg_mr,
	   uv_create_comp_channel;
/* uverbs_obj.c */
uv_handler uv_create_cq, uv_resize_cq, uv_destroy_cq, uv_create_qp, uv_modify_qp,
	   uv_query_qp, uv_destroy_qp, uv_create_srq, uv_modify_srq, uv_query_srq,
	   uv_destroy_srq;

/* uverbs_event.c: objects that events name, and how many of those were read */
enum uv_obj_type { UV_OBJ_CQ, UV_OBJ_QP, UV_OBJ_SRQ };

struct uv_reported { uint32_t comp, async; };

int uv_event_file(uint8_t kind, uint32_t ctx);	/* descriptor or negative errno */
int uv_obj_add(enum uv_obj_type type, uint32_t handle, uint64_t user, uint32_t ctx,
	       int comp_fd, int async_fd);
/* Also takes its unread events out of the event files. */
struct uv_reported uv_obj_del(enum uv_obj_type type, uint32_t handle);
void uv_obj_forget_ctx(uint32_t ctx);

/*
 * The driver's part of the commands: what a function takes from the request it adds to what
 * the card is asked, and *_done fills the answer in. NULL: the driver has no such part.
 */
struct uv_driver {
	bool has_timestamps;
	void (*context)(const struct uv_io *io);
	void (*device)(const struct uv_io *io);
	void (*pd)(const struct uv_io *io, uint32_t pdn);
	void (*ah)(const struct uv_io *io, const uint8_t mac[6]);
	void (*cq)(const struct uv_io *io, struct hca_ctl_cq *c);
	void (*cq_done)(const struct uv_io *io, uint32_t cqn);
	void (*resize)(const struct uv_io *io, struct hca_ctl_cq *c);
	int (*qp)(const struct uv_io *io, const struct hca_ctl_qp *c, struct hca_qp_geometry *g);
	void (*qp_done)(const struct uv_io *io);
	void (*modify_done)(const struct uv_io *io);
	void (*srq)(const struct uv_io *io, struct hca_ctl_srq *c);
	void (*srq_done)(const struct uv_io *io, uint32_t srqn);
};

extern const struct uv_driver uv_mlx5, uv_mlx4;		/* uverbs_mlx5.c, uverbs_mlx4.c */
const struct uv_driver *uv_driver(void);

uint32_t uv_srq_stride_shift(uint32_t max_sge);		/* the same for all drivers */

#endif
