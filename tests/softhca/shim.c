// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * What libibverbs and its providers ask libc for, redirected where it concerns the emulated
 * card: the device node, command files, doorbell pages. And one wrapper inside the verbs'
 * tables, so that empty polls sleep. Nothing is linked against libibverbs.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "shim.h"
#include "trap.h"
#include "uverbs.h"

#define DEVICE_NODE "/dev/infiniband/uverbs"
/* A real character device, whose number sysfs names for the card too. */
#define STAND_IN "/dev/null"
#define PAGE_SHIFT 12
#define MAX_CONTEXTS 64
#define MAX_EXT_CQS 1024

void *hca_find_real(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		abort();
	return p;
}

static bool is_device(const char *path)
{
	return path && !strncmp(path, DEVICE_NODE, sizeof(DEVICE_NODE) - 1);
}

static int real_open(const char *path, int flags, mode_t mode)
{
	REAL(open);
	return real(path, flags, mode);
}

static int open_device(int flags)
{
	int fd, rc = hca_app_attach();

	if (!rc) {
		fd = real_open(STAND_IN, flags, 0);
		if (fd < 0)
			return -1;
		rc = uv_adopt(fd);
		if (!rc)
			return fd;
		close(fd);
	}
	errno = -rc;
	return -1;
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	return is_device(path) ? open_device(flags) : real_open(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	return is_device(path) ? open_device(flags) : real_open(path, flags | O_LARGEFILE, mode);
}

/* What fortified programs call instead. */
int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags)
{
	return open64(path, flags);
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (is_device(path))
		return open_device(flags);
	REAL(openat);
	return real(dir, path, flags, mode);
}

int stat(const char *path, struct stat *st)
{
	REAL(stat);
	return real(is_device(path) ? STAND_IN : path, st);
}

int stat64(const char *path, struct stat64 *st)
{
	REAL(stat64);
	return real(is_device(path) ? STAND_IN : path, st);
}

int access(const char *path, int mode)
{
	REAL(access);
	return is_device(path) ? 0 : real(path, mode);
}

int close(int fd)
{
	REAL(close);
	if (uv_file(fd))
		uv_close(fd);
	vc_after(fd);
	vc_timers_forget(fd);
	return real(fd);
}

ssize_t write(int fd, const void *buf, size_t bytes)
{
	const struct uv_file *f = uv_file(fd);
	ssize_t rc;

	REAL(write);
	if (f && f->kind == UV_CMD)
		return uv_write(fd, buf, bytes);
	rc = real(fd, buf, bytes);
	vc_after(fd);
	return rc;
}

static ssize_t note_read(int fd, const void *buf, ssize_t n)
{
	const struct uv_file *f = uv_file(fd);

	if (n > 0 && f && f->kind != UV_CMD)
		uv_was_read(fd, buf, n);
	return n;
}

ssize_t read(int fd, void *buf, size_t bytes)
{
	REAL(read);
	vc_before(fd, POLLIN);
	return note_read(fd, buf, real(fd, buf, bytes));
}

ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t room);
ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t room)
{
	if (bytes > room)
		abort();
	return read(fd, buf, bytes);
}

int ioctl(int fd, unsigned long request, ...)
{
	const struct uv_file *f = uv_file(fd);
	va_list ap;
	void *arg;

	REAL(ioctl);
	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (f && f->kind == UV_CMD)
		return uv_ioctl(fd, arg);
	return real(fd, request, arg);
}

/* Offsets of a command file name doorbell pages: command << 8 | index, in pages. */
static void *map_doorbells(size_t bytes, off_t offset)
{
	enum { REGULAR = 0, WC = 2, NC = 3, ALLOC_WC = 6 };
	long command = offset >> PAGE_SHIFT >> 8 & 0xff;
	void *p;

	if (command != REGULAR && command != WC && command != NC && command != ALLOC_WC) {
		errno = EOPNOTSUPP;
		return MAP_FAILED;
	}
	p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED && hca_trap_add(p, bytes, offset >> PAGE_SHIFT & 0xff)) {
		munmap(p, bytes);
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return p;
}

void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	const struct uv_file *f = uv_file(fd);

	REAL(mmap);
	if (f && f->kind == UV_CMD)
		return map_doorbells(bytes, offset);
	return real(addr, bytes, prot, flags, fd, offset);
}

void *mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off64_t offset)
{
	return mmap(addr, bytes, prot, flags, fd, offset);
}

int munmap(void *addr, size_t bytes)
{
	REAL(munmap);
	hca_trap_del(addr, bytes);
	return real(addr, bytes);
}

/* ---- empty polls sleep ---- */

typedef int poll_fn(struct ibv_cq *, int, struct ibv_wc *);
typedef int start_poll_fn(struct ibv_cq_ex *, struct ibv_poll_cq_attr *);
typedef struct ibv_cq_ex *create_ex_fn(struct ibv_context *, struct ibv_cq_init_attr_ex *);

static struct wrapped {
	struct ibv_context *context;
	poll_fn *poll;
	create_ex_fn *create_ex;
} contexts[MAX_CONTEXTS];

static struct { struct ibv_cq_ex *cq; start_poll_fn *start; } ext_cqs[MAX_EXT_CQS];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static struct wrapped *wrapped_of(const struct ibv_context *context)
{
	for (int i = 0; i < MAX_CONTEXTS; i++)
		if (contexts[i].context == context)
			return &contexts[i];
	abort();	/* only wrapped contexts call the wrappers */
}

static int poll_or_sleep(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	poll_fn *poll = wrapped_of(cq->context)->poll;
	int got = poll(cq, n, wc);

	if (got || n < 1 || !hca_app_idle())
		return got;
	return poll(cq, n, wc);
}

static size_t ext_slot(const struct ibv_cq_ex *cq)
{
	size_t i = ((uintptr_t)cq >> 4) % MAX_EXT_CQS;

	for (size_t n = 0; n < MAX_EXT_CQS && ext_cqs[i].cq && ext_cqs[i].cq != cq; n++)
		i = (i + 1) % MAX_EXT_CQS;
	return i;
}

static int start_poll_or_sleep(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	start_poll_fn *start = ext_cqs[ext_slot(cq)].start;
	int rc = start(cq, attr);

	if (rc != ENOENT || !hca_app_idle())
		return rc;
	return start(cq, attr);
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context,
				      struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq = wrapped_of(context)->create_ex(context, attr);
	size_t i;

	if (!cq)
		return NULL;
	pthread_mutex_lock(&table_lock);
	i = ext_slot(cq);
	/* With the table full it polls without sleeping. */
	if (!ext_cqs[i].cq || ext_cqs[i].cq == cq) {
		ext_cqs[i].start = cq->start_poll;
		ext_cqs[i].cq = cq;
		cq->start_poll = start_poll_or_sleep;
	}
	pthread_mutex_unlock(&table_lock);
	return cq;
}

static void wrap(struct ibv_context *context)
{
	struct verbs_context *v = verbs_get_ctx(context);
	struct wrapped *w = NULL;

	pthread_mutex_lock(&table_lock);
	for (int i = 0; i < MAX_CONTEXTS && !w; i++)
		if (!contexts[i].context || contexts[i].context == context)
			w = &contexts[i];
	if (w) {
		w->context = context;
		w->poll = context->ops.poll_cq;
		context->ops.poll_cq = poll_or_sleep;
		if (v && v->create_cq_ex) {
			w->create_ex = v->create_cq_ex;
			v->create_cq_ex = create_cq_ex;
		}
	}
	pthread_mutex_unlock(&table_lock);
}

static void unwrap(struct ibv_context *context)
{
	pthread_mutex_lock(&table_lock);
	for (int i = 0; i < MAX_CONTEXTS; i++)
		if (contexts[i].context == context)
			contexts[i].context = NULL;
	pthread_mutex_unlock(&table_lock);
}

/* Not behind RTLD_NEXT when libibverbs came with dlopen() and local scope. */
static void *verbs_symbol(const char *name)
{
	void *lib, *p = dlvsym(RTLD_NEXT, name, "IBVERBS_1.1");

	if (p)
		return p;
	lib = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	return lib ? dlvsym(lib, name, "IBVERBS_1.1") : NULL;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	static struct ibv_context *(*real)(struct ibv_device *);
	struct ibv_context *context;

	if (!real)
		real = (__typeof__(real))verbs_symbol("ibv_open_device");
	if (!real) {
		errno = ENOSYS;
		return NULL;
	}
	context = real(device);
	if (context)
		wrap(context);
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	static int (*real)(struct ibv_context *);

	if (!real)
		real = (__typeof__(real))verbs_symbol("ibv_close_device");
	unwrap(context);
	return real ? real(context) : ENOSYS;
}
