// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * client.c - this process as a client of the daemon.
 *
 * Attachments are made when a device is opened and live until the process
 * ends. If the daemon goes, the region goes, traffic flows unpaced, and the
 * progress thread tries again and again, at a gentle pace.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"

#define HANDSHAKE_MS 250
#define RETRY_NS 1000000000ull

static pthread_mutex_t apps_lock = PTHREAD_MUTEX_INITIALIZER;
static struct jst_app *_Atomic apps;

struct jst_app *jst_app_first(void)
{
	return atomic_load_explicit(&apps, memory_order_acquire);
}

/* ---- the handshake -------------------------------------------------------- */

static void put_text(char *to, size_t bytes, const char *from)
{
	if (from)
		memcpy(to, from, strnlen(from, bytes));
}

static int connect_daemon(void)
{
	const struct timeval patience = { .tv_usec = HANDSHAKE_MS * 1000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = secure_getenv("JUSTITIA_SOCKET");
	int sock, error;

	if (!path || !*path)
		path = JST_SOCKET_DEFAULT;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	/* A hundred processes of one job may knock at once: wait, but not for ever. */
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(sock, (struct sockaddr *)&address, sizeof(address))) {
		error = -errno;
		close(sock);
		return error;
	}
	return sock;
}

static int say_hello(int sock, const char *device)
{
	struct jst_msg_hello hello = {
		.header = { JST_ABI_MAGIC, JST_ABI_VERSION, JST_HELLO },
	};

	put_text(hello.class, sizeof(hello.class), secure_getenv("JUSTITIA_CLASS"));
	put_text(hello.weight, sizeof(hello.weight), secure_getenv("JUSTITIA_WEIGHT"));
	put_text(hello.device, sizeof(hello.device), device);
	return send(sock, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello) ? 0 : -EPIPE;
}

/* At most one descriptor is taken over; *fd is -1 without one. */
static int receive_welcome(int sock, struct jst_msg_welcome *welcome, int *fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { welcome, sizeof(*welcome) };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct pollfd pollfd = { .fd = sock, .events = POLLIN };
	struct cmsghdr *cmsg;
	ssize_t got;

	*fd = -1;
	if (poll(&pollfd, 1, HANDSHAKE_MS) != 1)
		return -ETIMEDOUT;
	got = recvmsg(sock, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (got < 0)
		return -errno;
	cmsg = CMSG_FIRSTHDR(&message);
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS &&
	    cmsg->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(cmsg), sizeof(int));
	return got == sizeof(*welcome) ? 0 : -EPROTO;
}

static int check_welcome(const struct jst_msg_welcome *welcome, int fd)
{
	if (welcome->header.magic != JST_ABI_MAGIC || welcome->header.type != JST_WELCOME)
		return -EPROTO;
	if (welcome->header.version != JST_ABI_VERSION)
		return -EPROTONOSUPPORT;
	if (welcome->error)
		return welcome->error < 0 ? welcome->error : -EPROTO;
	if (fd < 0 || welcome->class >= JST_CLASSES ||
	    welcome->region_bytes != sizeof(struct jst_abi_region))
		return -EPROTO;
	return 0;
}

static int map_region(int fd, struct jst_abi_region **region)
{
	size_t bytes = sizeof(**region);
	off_t end = lseek(fd, 0, SEEK_END);
	int seals = fcntl(fd, F_GET_SEALS);
	void *map;

	/* Sealed, so that no one can take pages from under us. */
	if (end < (off_t)bytes || seals < 0 || !(seals & F_SEAL_SHRINK))
		return -EPROTO;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	madvise(map, bytes, MADV_DONTFORK);
	*region = map;
	if ((*region)->id.magic != JST_ABI_MAGIC || (*region)->id.version != JST_ABI_VERSION ||
	    (*region)->id.ring_tokens != JST_RING_TOKENS) {
		munmap(map, bytes);
		return -EPROTO;
	}
	return 0;
}

struct attachment {
	int sock;
	struct jst_msg_welcome welcome;
	struct jst_abi_region *region;
};

static int attach(const char *device, struct attachment *to)
{
	int fd = -1, error;

	to->sock = connect_daemon();
	if (to->sock < 0)
		return to->sock;
	error = say_hello(to->sock, device);
	if (!error)
		error = receive_welcome(to->sock, &to->welcome, &fd);
	if (!error)
		error = check_welcome(&to->welcome, fd);
	if (!error)
		error = map_region(fd, &to->region);
	if (fd >= 0)
		close(fd);
	if (error)
		close(to->sock);
	return error;
}

/* ---- attached and detached ------------------------------------------------ */

/* app->lock held, or nobody else knows of it yet. */
static void adopt(struct jst_app *app, const struct attachment *from)
{
	app->socket = from->sock;
	app->class = from->welcome.class;
	app->weight_milli = from->welcome.weight_milli;
	app->region = from->region;
	app->ring.region = from->region;
	app->ring.tail = app->wanted = 0;
	app->balance = (struct jst_balance){ 0, 0 };
	app->stalled = false;
	app->starving_ns = 0;
	atomic_store_explicit(&from->region->client.flows, app->flows, memory_order_seq_cst);
	jst_pacer_publish(app);
	jst_client_look(app);
}

static void detach(struct jst_app *app, uint64_t now_ns)
{
	struct jst_abi_region *region;

	pthread_mutex_lock(&app->lock);
	region = app->region;
	app->region = NULL;
	close(app->socket);
	app->socket = -1;
	app->retry_ns = now_ns + RETRY_NS;
	pthread_mutex_unlock(&app->lock);
	munmap(region, sizeof(*region));
}

void jst_client_look(struct jst_app *app)
{
	struct jst_msg_header look = { JST_ABI_MAGIC, JST_ABI_VERSION, JST_LOOK };
	int saved = errno;

	/* If it is full, the daemon has looks enough to read. */
	send(app->socket, &look, sizeof(look), MSG_DONTWAIT | MSG_NOSIGNAL);
	errno = saved;
}

void jst_client_read(struct jst_app *app, uint64_t now_ns)
{
	struct jst_msg_header nudge;
	ssize_t got;

	do
		got = recv(app->socket, &nudge, sizeof(nudge), MSG_DONTWAIT);
	while (got > 0);
	if (got == 0 || (errno != EAGAIN && errno != EINTR))
		detach(app, now_ns);
}

void jst_client_reconnect(struct jst_app *app, uint64_t now_ns)
{
	struct attachment attachment;

	app->retry_ns = now_ns + RETRY_NS;
	if (attach(app->device, &attachment))
		return;
	pthread_mutex_lock(&app->lock);
	adopt(app, &attachment);
	pthread_mutex_unlock(&app->lock);
}

/* ---- one per device -------------------------------------------------------- */

/*
 * A child has its parent's memory but not its threads: locks may be held for
 * ever, the region is not mapped, and the socket is the parent's. Queue pairs
 * of the parent are passed through; devices that the child opens are attached
 * anew.
 */
static void in_child(void)
{
	for (struct jst_app *app = jst_app_first(); app; app = app->next) {
		app->orphan = true;
		if (app->socket >= 0)
			close(app->socket);
	}
	atomic_store_explicit(&apps, NULL, memory_order_relaxed);
	pthread_mutex_init(&apps_lock, NULL);
	jst_progress_forget();
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

struct jst_app *jst_app_find(const char *device)
{
	struct jst_app *app = jst_app_first();

	while (app && strcmp(app->device, device))
		app = app->next;
	return app;
}

static struct jst_app *app_new(const char *device)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct attachment attachment;
	struct jst_app *app;

	if (attach(device, &attachment))
		return NULL;
	app = calloc(1, sizeof(*app));
	if (!app) {
		close(attachment.sock);
		munmap(attachment.region, sizeof(*attachment.region));
		return NULL;
	}
	pthread_once(&once, watch_forks);
	memcpy(app->device, device, strnlen(device, sizeof(app->device) - 1));
	pthread_mutex_init(&app->lock, NULL);
	adopt(app, &attachment);
	app->next = jst_app_first();
	atomic_store_explicit(&apps, app, memory_order_release);
	return app;
}

struct jst_app *jst_app_get(const char *device)
{
	const char *class = secure_getenv("JUSTITIA_CLASS");
	struct jst_app *app;

	if (class && !strcmp(class, "off"))
		return NULL;
	pthread_mutex_lock(&apps_lock);
	app = jst_app_find(device);
	if (!app)
		app = app_new(device);
	pthread_mutex_unlock(&apps_lock);
	if (app && jst_progress_start())
		app = NULL; /* without it queued work could be left behind */
	else if (app)
		jst_progress_kick();
	return app;
}
