/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * justitia.h - what an application may ask about its own share.
 *
 * No program needs this: class and weight come from the operator's rules or
 * from the environment (JUSTITIA_CLASS, JUSTITIA_WEIGHT). All functions may be
 * called from any thread; none blocks.
 */
#ifndef JUSTITIA_H
#define JUSTITIA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define JUSTITIA_VERSION "0.1.0"

enum justitia_class {
	JUSTITIA_BANDWIDTH = 0,
	JUSTITIA_THROUGHPUT = 1,
	JUSTITIA_LATENCY = 2,
};

struct justitia_status {
	uint32_t attached;     /* 1: the daemon is there and this process is its client */
	uint32_t app_class;    /* enum justitia_class, as the daemon decided */
	uint32_t weight_milli; /* 1000 is one share */
	uint32_t chunk_bytes;  /* TokenBytes now; 0 when not attached */
	uint64_t messages;     /* work requests taken from the application */
	uint64_t chunks;       /* work requests posted to the card */
	uint64_t bytes;	       /* bytes posted to the card */
};

/* The version of the library that is loaded: JUSTITIA_VERSION of its header. */
const char *justitia_version(void);

/*
 * The state of this process's attachment for the ibverbs device @device
 * ("mlx5_0"). 0, or -ENOENT if this process has opened no such device since
 * the library was loaded, or the device is not shaped.
 */
int justitia_query(const char *device, struct justitia_status *status);

#ifdef __cplusplus
}
#endif

#endif
