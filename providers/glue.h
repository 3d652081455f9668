/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * glue.h - the two calls that a vendor's provider makes.
 *
 * Copied, with glue.c and the driver's own driver_justitia.h, into the vendor's
 * source directory when rdma-core is built.
 */
#ifndef JST_GLUE_H
#define JST_GLUE_H

struct ibv_context;
struct verbs_context;

/*
 * After the vendor has set its last ops table: attaches, and replaces the
 * entries that shaping needs. Without a daemon, or for class latency, the
 * tables stay exactly as they are.
 */
void jst_glue_open(struct verbs_context *vctx);

/* When the vendor frees the context, before it does. */
void jst_glue_close(struct ibv_context *context);

#endif
