// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Descriptors on the virtual clock: who would block waits in the scheduler, and whoever writes
 * makes those who wait look again before time moves on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hca.h"
#include "shim.h"

static int real_poll(struct pollfd *fds, nfds_t n, int ms)
{
	REAL(poll);
	return real(fds, n, ms);
}

/* 0: a file that never blocks; S_IFSOCK, S_IFIFO, or 1: an event, timer or epoll descriptor. */
static unsigned int kind_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return 0;
	switch (st.st_mode & S_IFMT) {
	case S_IFSOCK:
	case S_IFIFO:
		return st.st_mode & S_IFMT;
	case 0:
		return 1;
	default:
		return 0;
	}
}

/* Number of ready ones, 0 at @due_ns, -1 and EINTR. */
static int wait_ready(struct pollfd *fds, nfds_t n, uint64_t due_ns)
{
	unsigned int alarms = vc_alarms();

	for (;;) {
		int rc = real_poll(fds, n, 0);

		if (rc || vc_now_ns() >= due_ns)
			return rc;
		rc = vc_wait_fds(fds, n, due_ns);
		if (rc == -EINTR || vc_alarms() != alarms) {
			errno = EINTR;
			return -1;
		}
	}
}

void vc_before(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	if (!vc_takes_part() || !kind_of(fd) || fcntl(fd, F_GETFL) & O_NONBLOCK)
		return;
	while (wait_ready(&p, 1, VC_NEVER) < 0)
		;	/* as if the call were restarted */
}

void vc_after(int fd)
{
	unsigned int kind;
	int saved = errno;

	if (!vc_takes_part())
		return;
	kind = kind_of(fd);
	if (kind)
		vc_wake(kind == 1 ? getpid() : 0, VC_FDS);
	errno = saved;
}

/* ---- poll and its kin ---- */

static uint64_t due_in(const struct timespec *t)
{
	return t ? vc_now_ns() + hca_ns(t) : VC_NEVER;
}

static uint64_t due_in_ms(int ms)
{
	return ms < 0 ? VC_NEVER : vc_now_ns() + (uint64_t)ms * HCA_NS_PER_MS;
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	if (!vc_takes_part() || !ms)
		return real_poll(fds, n, ms);
	return wait_ready(fds, n, due_in_ms(ms));
}

int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room);
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room)
{
	if (room / sizeof(*fds) < n)
		abort();
	return poll(fds, n, ms);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *time, const sigset_t *mask)
{
	sigset_t old;
	int rc;

	REAL(ppoll);
	if (!vc_takes_part())
		return real(fds, n, time, mask);
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &old);
	rc = wait_ready(fds, n, due_in(time));
	if (mask)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *time, const sigset_t *mask,
		size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *time, const sigset_t *mask,
		size_t room)
{
	if (room / sizeof(*fds) < n)
		abort();
	return ppoll(fds, n, time, mask);
}

static nfds_t from_sets(struct pollfd *fds, int n, fd_set *in, fd_set *out, fd_set *except)
{
	nfds_t count = 0;

	for (int fd = 0; fd < n; fd++) {
		short events = (short)((in && FD_ISSET(fd, in) ? POLLIN : 0) |
				       (out && FD_ISSET(fd, out) ? POLLOUT : 0) |
				       (except && FD_ISSET(fd, except) ? POLLPRI : 0));

		if (events)
			fds[count++] = (struct pollfd){ .fd = fd, .events = events };
	}
	return count;
}

int select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *tv)
{
	struct timeval none = { 0, 0 };
	struct timespec time;
	struct pollfd fds[FD_SETSIZE];

	REAL(select);
	if (!vc_takes_part() || n < 0 || n > FD_SETSIZE || (tv && !tv->tv_sec && !tv->tv_usec))
		return real(n, in, out, except, tv);
	if (tv)
		time = (struct timespec){ tv->tv_sec, tv->tv_usec * 1000 };
	if (wait_ready(fds, from_sets(fds, n, in, out, except), due_in(tv ? &time : NULL)) < 0)
		return -1;
	return real(n, in, out, except, &none);
}

int epoll_wait(int epfd, struct epoll_event *events, int room, int ms)
{
	struct pollfd p = { .fd = epfd, .events = POLLIN };

	REAL(epoll_wait);
	if (!vc_takes_part() || !ms)
		return real(epfd, events, room, ms);
	if (wait_ready(&p, 1, due_in_ms(ms)) < 0)
		return -1;
	return real(epfd, events, room, 0);
}

int epoll_pwait(int epfd, struct epoll_event *events, int room, int ms, const sigset_t *mask)
{
	REAL(epoll_pwait);
	if (!vc_takes_part())
		return real(epfd, events, room, ms, mask);
	return epoll_wait(epfd, events, room, ms);
}

int epoll_pwait2(int epfd, struct epoll_event *events, int room, const struct timespec *time,
		 const sigset_t *mask)
{
	struct pollfd p = { .fd = epfd, .events = POLLIN };

	REAL(epoll_pwait2);
	if (!vc_takes_part())
		return real(epfd, events, room, time, mask);
	if (wait_ready(&p, 1, due_in(time)) < 0)
		return -1;
	return epoll_wait(epfd, events, room, 0);
}

/* ---- calls that wait for what comes ---- */

#define MAY_WAIT(type, name, params, args, waits)	\
	type name params				\
	{						\
		REAL(name);				\
		if (waits)				\
			vc_before(fd, POLLIN);		\
		return real args;			\
	}

MAY_WAIT(ssize_t, recv, (int fd, void *buf, size_t n, int flags), (fd, buf, n, flags),
	 !(flags & MSG_DONTWAIT))
MAY_WAIT(ssize_t, recvfrom, (int fd, void *restrict buf, size_t n, int flags,
			     struct sockaddr *restrict from, socklen_t *restrict length),
	 (fd, buf, n, flags, from, length), !(flags & MSG_DONTWAIT))
MAY_WAIT(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags),
	 !(flags & MSG_DONTWAIT))
MAY_WAIT(ssize_t, readv, (int fd, const struct iovec *iov, int n), (fd, iov, n), true)
MAY_WAIT(int, accept, (int fd, struct sockaddr *restrict from, socklen_t *restrict length),
	 (fd, from, length), true)
MAY_WAIT(int, accept4, (int fd, struct sockaddr *restrict from, socklen_t *restrict length,
			int flags), (fd, from, length, flags), true)

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
	if (n > room)
		abort();
	return recv(fd, buf, n, flags);
}

/* ---- calls that others wait for ---- */

#define TELLS(type, name, params, args)		\
	type name params			\
	{					\
		type rc;			\
						\
		REAL(name);			\
		rc = real args;			\
		vc_after(fd);			\
		return rc;			\
	}

TELLS(ssize_t, send, (int fd, const void *buf, size_t n, int flags), (fd, buf, n, flags))
TELLS(ssize_t, sendto, (int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
			socklen_t length), (fd, buf, n, flags, to, length))
TELLS(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
TELLS(ssize_t, writev, (int fd, const struct iovec *iov, int n), (fd, iov, n))
TELLS(int, shutdown, (int fd, int how), (fd, how))
TELLS(int, connect, (int fd, const struct sockaddr *to, socklen_t length), (fd, to, length))
