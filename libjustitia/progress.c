// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * progress.c - the one thread of ours in a process.
 *
 * It posts what waits for tokens when nobody else is about to, polls when a
 * queue waits for room, and watches the socket. With nothing to do it sleeps
 * without a timer.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define MAX_APPS 16
#define NEVER UINT64_MAX

/* A send queue is full and nobody polls: how often to look for completions. */
#define ROOM_POLL_NS 50000ull
/* Sleeping is less exact than this; closer slots are waited for on the spot. */
#define SPIN_NS 3000ull

pthread_mutex_t jst_progress_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool running;
static int kick_fd = -1;
static _Atomic uint32_t kicks;
static _Atomic bool sleeping;

void jst_progress_kick(void)
{
	const uint64_t one = 1;
	int saved = errno;

	/* seq_cst: count, then look; the thread says that it sleeps, then counts */
	atomic_fetch_add_explicit(&kicks, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&sleeping, memory_order_seq_cst) &&
	    write(kick_fd, &one, sizeof(one)) < 0)
		errno = saved; /* full is as good as written */
	errno = saved;
}

/* Queue pairs whose send queue is full: their completions are read for them. */
static bool poll_for_room(struct jst_app *app)
{
	struct jst_cq *cqs[32];
	unsigned int n = 0;
	struct jst_qp *qp;

	pthread_mutex_lock(&app->lock);
	qp = app->active;
	for (uint32_t i = atomic_load(&app->actives); qp && i && n < 32; i--) {
		if (qp->wants_room)
			cqs[n++] = qp->cq;
		qp = qp->next_active;
	}
	pthread_mutex_unlock(&app->lock);
	for (unsigned int i = 0; i < n; i++)
		jst_cq_drain(cqs[i]);
	return n > 0;
}

/*
 * When an app with work is to be served next: at its next slot; or, if it has
 * been given none, when the daemon wakes us, but not later than it takes to
 * lose patience. app->lock held.
 */
static uint64_t next_token_ns(struct jst_app *app, uint64_t now_ns)
{
	bool waits = app->active && !jst_pacer_allows(app);
	uint64_t due = waits ? jst_pacer_due_ns(app) : NEVER;

	if (due != NEVER || !waits)
		app->starving_ns = 0;
	/* Said, then looked: the daemon pushes, then looks. */
	if (jst_ring_wait(&app->ring, waits && due == NEVER) && waits)
		return jst_pacer_due_ns(app);
	return waits ? jst_pacer_starve(app, now_ns) : NEVER;
}

/* One pass over an app; returns when it wants the next one. */
static uint64_t serve(struct jst_app *app)
{
	uint64_t due, now;
	bool full;

	pthread_mutex_lock(&jst_progress_lock);
	jst_shaper_run_all(app, true);
	full = poll_for_room(app);
	if (full)
		jst_shaper_run_all(app, true);
	pthread_mutex_unlock(&jst_progress_lock);

	if (app->socket < 0)
		return app->retry_ns;
	now = jst_now_ns();
	pthread_mutex_lock(&app->lock);
	due = next_token_ns(app, now);
	pthread_mutex_unlock(&app->lock);
	if (full && due > now + ROOM_POLL_NS)
		due = now + ROOM_POLL_NS;
	return due;
}

static void nap(struct pollfd *fds, nfds_t n, uint64_t due_ns)
{
	uint64_t now = jst_now_ns();
	struct timespec time = { 0, 0 };

	if (due_ns != NEVER && due_ns > now) {
		if (due_ns - now < SPIN_NS) {
			while (jst_now_ns() < due_ns)
				__builtin_ia32_pause();
			return;
		}
		time.tv_sec = (time_t)((due_ns - now) / 1000000000ull);
		time.tv_nsec = (long)((due_ns - now) % 1000000000ull);
	}
	ppoll(fds, n, due_ns == NEVER ? NULL : &time, NULL);
}

static void listen_to(struct pollfd *fds, nfds_t n, struct jst_app *const *of)
{
	uint64_t count, now = jst_now_ns();

	if (fds[0].revents && read(kick_fd, &count, sizeof(count)) < 0)
		count = 0;
	for (nfds_t i = 1; i < n; i++) {
		if (fds[i].fd < 0) {
			if (now >= of[i]->retry_ns)
				jst_client_reconnect(of[i], now);
		} else if (fds[i].revents) {
			jst_client_read(of[i], now);
		}
	}
}

static void *progress(void *unused)
{
	struct pollfd fds[1 + MAX_APPS];
	struct jst_app *of[1 + MAX_APPS];

	prctl(PR_SET_TIMERSLACK, 1UL);
	for (;;) {
		uint32_t seen = atomic_load_explicit(&kicks, memory_order_seq_cst);
		uint64_t due = NEVER;
		nfds_t n = 1;

		fds[0] = (struct pollfd){ .fd = kick_fd, .events = POLLIN };
		for (struct jst_app *app = jst_app_first(); app && n <= MAX_APPS;
		     app = app->next, n++) {
			uint64_t app_due = serve(app);

			due = app_due < due ? app_due : due;
			of[n] = app;
			fds[n] = (struct pollfd){ .fd = app->socket, .events = POLLIN };
		}
		atomic_store_explicit(&sleeping, true, memory_order_seq_cst);
		if (atomic_load_explicit(&kicks, memory_order_seq_cst) != seen)
			due = 0;
		nap(fds, n, due);
		atomic_store_explicit(&sleeping, false, memory_order_seq_cst);
		listen_to(fds, n, of);
	}
	return unused;
}

static int start(void)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int error;

	kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (kick_fd < 0)
		return -errno;
	/* The application's signals are the application's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attr, progress, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error) {
		close(kick_fd);
		kick_fd = -1;
	}
	return -error;
}

int jst_progress_start(void)
{
	int error = 0;

	pthread_mutex_lock(&start_lock);
	if (!running) {
		error = start();
		running = !error;
	}
	pthread_mutex_unlock(&start_lock);
	return error;
}

void jst_progress_forget(void)
{
	pthread_mutex_init(&start_lock, NULL);
	pthread_mutex_init(&jst_progress_lock, NULL);
	if (kick_fd >= 0)
		close(kick_fd);
	kick_fd = -1;
	running = false;
	atomic_store_explicit(&sleeping, false, memory_order_relaxed);
}
