// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "hca.h"
#include "dma.h"

/* Fits the second-level cache: what is read is still there when it is written. */
#define BOUNCE_BYTES (128u << 10)

static uint8_t bounce[BOUNCE_BYTES];	/* the driver is one thread at a time */

static bool is_own(pid_t pid)
{
	return !pid || pid == hca_self;
}

static int vm_result(ssize_t n, size_t want)
{
	if (n == (ssize_t)want)
		return 0;
	return n < 0 && errno == ESRCH ? -ESRCH : -EFAULT;
}

int hca_dma_read(pid_t pid, uint64_t addr, void *to, size_t bytes)
{
	struct iovec l = { to, bytes }, r = { (void *)(uintptr_t)addr, bytes };

	if (!is_own(pid))
		return vm_result(process_vm_readv(pid, &l, 1, &r, 1, 0), bytes);
	memcpy(to, r.iov_base, bytes);
	return 0;
}

int hca_dma_write(pid_t pid, uint64_t addr, const void *from, size_t bytes)
{
	struct iovec l = { (void *)from, bytes }, r = { (void *)(uintptr_t)addr, bytes };

	if (!is_own(pid))
		return vm_result(process_vm_writev(pid, &l, 1, &r, 1, 0), bytes);
	memcpy(r.iov_base, from, bytes);
	return 0;
}

int hca_dma_publish(pid_t pid, uint64_t addr, const void *from, size_t bytes)
{
	size_t body = bytes - 1;
	uint8_t *at = (uint8_t *)(uintptr_t)addr;
	const uint8_t *b = from;

	if (is_own(pid)) {
		memcpy(at, b, body);
		__atomic_store_n(at + body, b[body], __ATOMIC_RELEASE);
		return 0;
	}
	/* The kernel copies the elements of a vector one after another. */
	struct iovec l[2] = { { (void *)b, body }, { (void *)(b + body), 1 } };
	struct iovec r[2] = { { at, body }, { at + body, 1 } };

	return vm_result(process_vm_writev(pid, l, 2, r, 2, 0), bytes);
}

void hca_sgl_add(struct hca_sgl *l, uint64_t addr, uint64_t bytes)
{
	l->v[l->n].iov_base = (void *)(uintptr_t)addr;
	l->v[l->n++].iov_len = bytes;
}

/* The part [offset, offset + bytes) of a list. */
static void slice(const struct hca_sgl *in, uint64_t offset, uint64_t bytes, struct hca_sgl *out)
{
	out->pid = in->pid;
	out->n = 0;
	for (uint32_t i = 0; i < in->n && bytes; i++) {
		uint64_t len = in->v[i].iov_len;

		if (offset >= len) {
			offset -= len;
			continue;
		}
		uint64_t take = len - offset < bytes ? len - offset : bytes;

		hca_sgl_add(out, (uintptr_t)in->v[i].iov_base + offset, take);
		offset = 0;
		bytes -= take;
	}
}

/* Between this process's memory @own and @other's. */
static int one_sided(const struct hca_sgl *own, const struct hca_sgl *other, uint64_t bytes,
		     bool to_other)
{
	ssize_t n = to_other ?
		process_vm_writev(other->pid, own->v, own->n, other->v, other->n, 0) :
		process_vm_readv(other->pid, own->v, own->n, other->v, other->n, 0);

	return vm_result(n, bytes);
}

static void copy_local(const struct hca_sgl *dst, const struct hca_sgl *src)
{
	uint32_t i = 0, j = 0;
	size_t a = 0, b = 0;

	while (i < dst->n && j < src->n) {
		size_t left = dst->v[i].iov_len - a, have = src->v[j].iov_len - b;
		size_t k = left < have ? left : have;

		memmove((char *)dst->v[i].iov_base + a, (char *)src->v[j].iov_base + b, k);
		a += k;
		b += k;
		if (a == dst->v[i].iov_len)
			i++, a = 0;
		if (b == src->v[j].iov_len)
			j++, b = 0;
	}
}

static int copy_through(const struct hca_sgl *dst, const struct hca_sgl *src, uint64_t bytes)
{
	struct hca_sgl mid = { .n = 1, .v = { { bounce, bytes } } };
	int rc = one_sided(&mid, src, bytes, false);

	return rc ? rc : one_sided(&mid, dst, bytes, true);
}

static int copy_piece(const struct hca_sgl *dst, const struct hca_sgl *src, uint64_t bytes)
{
	bool own_dst = is_own(dst->pid), own_src = is_own(src->pid);

	if (own_dst && own_src) {
		copy_local(dst, src);
		return 0;
	}
	if (own_dst)
		return one_sided(dst, src, bytes, false);
	if (own_src)
		return one_sided(src, dst, bytes, true);
	return copy_through(dst, src, bytes);
}

int hca_dma_copy(const struct hca_sgl *dst, const struct hca_sgl *src, uint64_t offset,
		 uint64_t bytes)
{
	struct hca_sgl d, s;
	int rc = 0;

	while (bytes && !rc) {
		uint64_t piece = bytes < BOUNCE_BYTES ? bytes : BOUNCE_BYTES;

		slice(dst, offset, piece, &d);
		slice(src, offset, piece, &s);
		rc = copy_piece(&d, &s, piece);
		offset += piece;
		bytes -= piece;
	}
	vc_wake(dst->pid, VC_SPIN);
	return rc;
}
