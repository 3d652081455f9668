/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* post.h - operations of traffic.h become work requests, by either interface. */
#ifndef T_POST_H
#define T_POST_H

#include "traffic.h"

#define T_LIST_MOST 16u

struct t_poster {
	const struct t_traffic *traffic;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qp_ex; /* ibv_wr_*(); NULL: ibv_post_send() */
	uint8_t *area[T_AREAS];	 /* in memory; NULL where this side has none */
	uint32_t lkey;
	uint64_t target_addr;	 /* of the passive side */
	uint32_t target_rkey;
	uint8_t *scratch;	 /* inline data of one list, not registered */
	struct t_random random;	 /* of the posting alone: never shared with the peer */
};

void t_poster_init(struct t_poster *poster, const struct t_traffic *traffic, struct ibv_qp *qp,
		   bool extended);
void t_poster_free(struct t_poster *poster);

/* Posts @n operations (at most T_LIST_MOST) in one call or one batch. */
void t_post_list(struct t_poster *poster, const struct t_op *op, uint32_t n);

void t_post_receive(struct t_poster *poster, const struct t_op *op);

#endif
