/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * provider.h - what only our glue inside a vendor's provider may call.
 *
 * The glue replaces entries of the vendor's ops table by functions that end
 * here, and passes the vendor's own functions in. Nothing here is called, and
 * no entry is replaced, when jst_ctx_open() says NULL.
 *
 * Thread-safety is that of the verb which the function stands for: any thread,
 * any time, except that an object must not be used while it is destroyed.
 */
#ifndef JST_PROVIDER_H
#define JST_PROVIDER_H

#include <stdbool.h>
#include <infiniband/verbs.h>

struct jst_ctx;
struct jst_cq;
struct jst_qp;

/* The vendor's functions, below everything that we do. Copied at open. */
struct jst_vendor {
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	/* Does post_send fail on a queue pair that has not been in RTS since its reset? */
	bool refuses_until_rts;
};

/*
 * Attaches this process to the daemon for @context's device, at most once per
 * process and device. Returns NULL where the vendor's functions are to stay in
 * place: no daemon, refused, class latency, or JUSTITIA_CLASS=off. Waits a
 * quarter of a second for a daemon at the most.
 */
struct jst_ctx *jst_ctx_open(struct ibv_context *context, const struct jst_vendor *vendor);
void jst_ctx_close(struct jst_ctx *ctx);

/* Work completions of our own that a CQ must have room for beside the application's. */
#define JST_CQ_SLACK 64

/*
 * NULL and errno ENOMEM. @cq_ex: the extended interface of the same CQ, whose
 * functions the glue replaces afterwards by those below, or NULL. It must have
 * been made with JST_CQ_EX_FLAGS added to its wc_flags.
 */
#define JST_CQ_EX_FLAGS (IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN)
struct jst_cq *jst_cq_create(struct jst_ctx *ctx, struct ibv_cq *cq, struct ibv_cq_ex *cq_ex);
void jst_cq_destroy(struct jst_cq *cq);
int jst_poll_cq(struct jst_cq *cq, int num_entries, struct ibv_wc *wc);
int jst_start_poll(struct jst_cq *cq, struct ibv_poll_cq_attr *attr);
int jst_next_poll(struct jst_cq *cq);
void jst_end_poll(struct jst_cq *cq);
uint32_t jst_read_byte_len(struct jst_cq *cq);

/* What the application asked for, kept while the vendor's queue pair is made. */
struct jst_qp_request {
	uint32_t max_send_wr;
	int sq_sig_all;
};

/*
 * True if queue pairs like this are shaped; @attr then asks the vendor for what
 * we need. @send_ops: enum ibv_qp_create_send_ops_flags, 0 without them.
 */
int jst_qp_prepare(struct jst_ctx *ctx, struct jst_cq *send_cq, struct ibv_qp_init_attr *attr,
		   uint64_t send_ops, struct jst_qp_request *request);

/* Gives @attr the application's view back. */
void jst_qp_restore(const struct jst_qp_request *request, struct ibv_qp_init_attr *attr);

/*
 * Takes over a queue pair that the vendor made from a prepared @attr (as the
 * vendor returned it). @qp_ex: its extended posting interface, which the glue
 * replaces afterwards by jst_wr_*, or NULL. NULL and errno ENOMEM.
 */
struct jst_qp *jst_qp_create(struct jst_ctx *ctx, struct jst_cq *send_cq, struct ibv_qp *qp,
			     struct ibv_qp_ex *qp_ex, const struct ibv_qp_init_attr *attr,
			     const struct jst_qp_request *request);
/*
 * Around the vendor's destroy, and its reset: nothing is posted in between. If
 * the vendor refuses, all goes on as before.
 */
void jst_qp_pause(struct jst_qp *qp);
void jst_qp_resume(struct jst_qp *qp);

/* After the vendor's destroy: what was queued is dropped, no completions follow. */
void jst_qp_destroy(struct jst_qp *qp);

/* After the vendor's modify and query succeeded. */
void jst_qp_modified(struct jst_qp *qp, const struct ibv_qp_attr *attr, int attr_mask);
void jst_qp_queried(struct jst_qp *qp, struct ibv_qp_attr *attr,
		    struct ibv_qp_init_attr *init_attr);

/* As ibv_post_send: 0 or a positive errno, and *bad_wr. */
int jst_post_send(struct jst_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

/* As ibv_wr_*, between start and complete or abort by one thread. */
void jst_wr_start(struct jst_qp *qp);
int jst_wr_complete(struct jst_qp *qp);
void jst_wr_abort(struct jst_qp *qp);
void jst_wr_send(struct jst_qp *qp);
void jst_wr_send_imm(struct jst_qp *qp, __be32 imm_data);
void jst_wr_send_inv(struct jst_qp *qp, uint32_t invalidate_rkey);
void jst_wr_rdma_write(struct jst_qp *qp, uint32_t rkey, uint64_t remote_addr);
void jst_wr_rdma_write_imm(struct jst_qp *qp, uint32_t rkey, uint64_t remote_addr,
			   __be32 imm_data);
void jst_wr_rdma_read(struct jst_qp *qp, uint32_t rkey, uint64_t remote_addr);
void jst_wr_atomic_cmp_swp(struct jst_qp *qp, uint32_t rkey, uint64_t remote_addr,
			   uint64_t compare, uint64_t swap);
void jst_wr_atomic_fetch_add(struct jst_qp *qp, uint32_t rkey, uint64_t remote_addr,
			     uint64_t add);
void jst_wr_local_inv(struct jst_qp *qp, uint32_t invalidate_rkey);
void jst_wr_bind_mw(struct jst_qp *qp, struct ibv_mw *mw, uint32_t rkey,
		    const struct ibv_mw_bind_info *bind_info);
void jst_wr_set_ud_addr(struct jst_qp *qp, struct ibv_ah *ah, uint32_t remote_qpn,
			uint32_t remote_qkey);
void jst_wr_set_sge(struct jst_qp *qp, uint32_t lkey, uint64_t addr, uint32_t length);
void jst_wr_set_sge_list(struct jst_qp *qp, size_t num_sge, const struct ibv_sge *sg_list);
void jst_wr_set_inline_data(struct jst_qp *qp, const void *addr, size_t length);
void jst_wr_set_inline_data_list(struct jst_qp *qp, size_t num_buf,
				 const struct ibv_data_buf *buf_list);

#endif
