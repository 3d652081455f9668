// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * leave.c - applications that go away while much of their work is still queued.
 *
 *   leave WAY   posts COUNT large writes and then:
 *
 *   exit      calls exit() at once
 *   quick     calls _exit() at once
 *   return    returns from main, another thread still polling
 *   abort     calls abort()
 *   exec      becomes another program
 *   destroy   destroys everything in order; every step must succeed
 *   one       destroys one queue pair; the work of another on the same CQ goes on
 *   fork      forks a child that calls exit() at once; its own work goes on
 *   linger    forks a child that stays a while; its own work goes on
 *   orphan    forks a child that stays a while, and calls exit() itself
 *
 * Status 0 if all went as it should (abort: the signal).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "side.h"

#define COUNT 48u
#define BYTES 1000000u
#define CHILD_STAYS_S 2
#define PATIENCE_NS 60000000000ull

static struct t_side side;
static uint8_t *source, *target;
static struct ibv_mr *mr;

static void open_all(void)
{
	struct t_side_options options = {
		.gid_index = -1, .qps = 4, .send_wr = COUNT, .recv_wr = 1, .sge = 1,
	};

	t_side_open(&side, &options);
	source = t_must(aligned_alloc(4096, COUNT * BYTES * 2), "malloc");
	target = source + COUNT * BYTES;
	for (size_t i = 0; i < COUNT * BYTES; i++)
		source[i] = (uint8_t)(i * 7 + i / 4093);
	memset(target, 0, COUNT * BYTES);
	mr = t_must(ibv_reg_mr(side.pd, source, COUNT * BYTES * 2,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), "ibv_reg_mr");
	/* 0 to 1 and 2 to 3 */
	for (int i = 0; i < 4; i++) {
		struct t_side_address peer = t_side_address(&side, side.qp[i ^ 1]);

		t_side_to_rts(&side, side.qp[i], &peer);
	}
}

static void post_all(struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < COUNT; i++) {
		struct ibv_sge sge = {(uintptr_t)source + i * BYTES, BYTES, mr->lkey};
		struct ibv_send_wr wr = {
			.wr_id = i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)target + i * BYTES, mr->rkey},
		}, *bad;

		t_ok(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	}
}

static void complete_all(struct ibv_qp *qp)
{
	uint64_t end = t_now_ns() + PATIENCE_NS;
	uint32_t next = 0;

	while (next < COUNT) {
		struct t_completion wc;

		if (t_now_ns() > end)
			t_die(1, "%u of %u completions came", next, COUNT);
		if (!t_side_poll(&side, false, &wc, 1))
			continue;
		if (wc.status != IBV_WC_SUCCESS || wc.wr_id != next || wc.qpn != qp->qp_num)
			t_die(1, "completion %u: wr_id %llu, %s, queue pair 0x%x not 0x%x", next,
			      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), wc.qpn,
			      qp->qp_num);
		next++;
	}
	if (memcmp(source, target, COUNT * BYTES))
		t_die(1, "the bytes at the target differ");
}

static void destroy_everything(void)
{
	t_ok(ibv_dereg_mr(mr), "ibv_dereg_mr");
	t_side_close(&side);
}

static void *poll_for_ever(void *arg)
{
	struct t_completion wc;

	for (;;)
		t_side_poll(&side, false, &wc, 1);
	return arg;
}

static void return_while_polling(void)
{
	pthread_t thread;

	t_ok(pthread_create(&thread, NULL, poll_for_ever, NULL), "pthread_create");
}

static void leave_one(void)
{
	post_all(side.qp[2]);
	t_ok(ibv_destroy_qp(side.qp[0]), "ibv_destroy_qp");
	side.qp[0] = NULL;
	complete_all(side.qp[2]);
	destroy_everything();
}

static void fork_and_go_on(unsigned int stay_s)
{
	pid_t child = fork();
	int status;

	if (!child) {
		sleep(stay_s);
		exit(0);
	}
	t_ok(child < 0, "fork");
	complete_all(side.qp[0]);
	if (waitpid(child, &status, 0) != child || status)
		t_die(1, "the child ended with status 0x%x", status);
	/* and it can post after it, too */
	memset(target, 0, COUNT * BYTES);
	post_all(side.qp[0]);
	complete_all(side.qp[0]);
	destroy_everything();
}

static void leave_an_orphan(void)
{
	if (!fork()) {
		sleep(CHILD_STAYS_S);
		_exit(0);
	}
	exit(0);
}

int main(int argc, char **argv)
{
	const char *way = argc == 2 ? argv[1] : "";

	open_all();
	post_all(side.qp[0]);
	if (!strcmp(way, "exit"))
		exit(0);
	else if (!strcmp(way, "quick"))
		_exit(0);
	else if (!strcmp(way, "return"))
		return_while_polling();
	else if (!strcmp(way, "abort"))
		abort();
	else if (!strcmp(way, "exec"))
		execl("/bin/true", "true", NULL);
	else if (!strcmp(way, "destroy"))
		destroy_everything();
	else if (!strcmp(way, "one"))
		leave_one();
	else if (!strcmp(way, "fork"))
		fork_and_go_on(0);
	else if (!strcmp(way, "linger"))
		fork_and_go_on(CHILD_STAYS_S);
	else if (!strcmp(way, "orphan"))
		leave_an_orphan();
	else
		t_die(2, "unknown way '%s' to leave; see the top of leave.c", way);
	return 0;
}
