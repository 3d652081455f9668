/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reaching application memory. The seam behind which pages may be shared one day; today
 * it is process_vm_readv/writev, and plain copies inside one's own process.
 */
#ifndef HCA_DMA_H
#define HCA_DMA_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define HCA_SGL_MAX 64

/* Pieces of one process's memory; pid 0 = the caller's own. */
struct hca_sgl {
	pid_t pid;
	uint32_t n;
	struct iovec v[HCA_SGL_MAX];
};

/* All: 0, -ESRCH if the process is gone, -EFAULT if its memory is not there. */
int hca_dma_read(pid_t pid, uint64_t addr, void *to, size_t bytes);
int hca_dma_write(pid_t pid, uint64_t addr, const void *from, size_t bytes);
/* The last byte becomes visible after all others: a completion's ownership byte. */
int hca_dma_publish(pid_t pid, uint64_t addr, const void *from, size_t bytes);
/* Bytes [offset, offset + bytes) of the two lists. */
int hca_dma_copy(const struct hca_sgl *dst, const struct hca_sgl *src, uint64_t offset,
		 uint64_t bytes);
void hca_sgl_add(struct hca_sgl *l, uint64_t addr, uint64_t bytes);

#endif
