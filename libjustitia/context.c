// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* context.c - a device is opened: is anything to be shaped there at all? */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "justitia.h"

struct jst_ctx *jst_ctx_open(struct ibv_context *context, const struct jst_vendor *vendor)
{
	struct jst_app *app = jst_app_get(context->device->name);
	struct jst_ctx *ctx;

	if (!app)
		return NULL;
	if (app->class == JST_CLASS_LATENCY) {
		/* Nothing of it is touched; that it is there is what counts. */
		jst_pacer_flows(app, 1);
		return NULL;
	}
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return NULL;
	ctx->context = context;
	ctx->vendor = *vendor;
	ctx->app = app;
	return ctx;
}

void jst_ctx_close(struct jst_ctx *ctx)
{
	free(ctx);
}

const char *justitia_version(void)
{
	return JUSTITIA_VERSION;
}

int justitia_query(const char *device, struct justitia_status *status)
{
	struct jst_app *app = jst_app_find(device);

	memset(status, 0, sizeof(*status));
	if (!app)
		return -ENOENT;
	pthread_mutex_lock(&app->lock);
	status->attached = app->region != NULL;
	status->app_class = app->class;
	status->weight_milli = app->weight_milli;
	status->chunk_bytes = jst_pacer_chunk_bytes(app);
	status->messages = app->counters.messages;
	status->chunks = app->counters.chunks;
	status->bytes = app->counters.bytes;
	pthread_mutex_unlock(&app->lock);
	return 0;
}
