// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* ctl_status.c - the status document as a table for people. */
#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"

#define CELL_BYTES 32

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(object, key, &value);
	return value;
}

static uint64_t number(struct json_object *object, const char *key)
{
	return json_object_get_uint64(member(object, key));
}

static const char *text(struct json_object *object, const char *key)
{
	const char *value = json_object_get_string(member(object, key));

	return value ? value : "-";
}

/* Three or four digits and a prefix: 5.43 G. Powers of 1000. */
static const char *scaled(char *out, double value, const char *unit)
{
	static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };
	unsigned int power = 0;

	while (value >= 999.5 && power < 6) {
		value /= 1000;
		power++;
	}
	snprintf(out, CELL_BYTES, "%.*f %s%s", power && value < 99.95 ? 2 : 0, value,
		 prefixes[power], unit);
	return out;
}

static const char *weight(char *out, uint64_t weight_milli)
{
	int digits = 3;

	while (digits && weight_milli % 10 == 0) {
		weight_milli /= 10;
		digits--;
	}
	snprintf(out, CELL_BYTES, "%.*f", digits,
		 (double)weight_milli / (digits == 3 ? 1000 : digits == 2 ? 100 : digits ? 10 : 1));
	return out;
}

static void print_rate(struct json_object *device, const char *name, const char *bytes_key,
		       const char *ops_key)
{
	char bits[CELL_BYTES], ops[CELL_BYTES];

	printf("  %-9s %12s %12s\n", name, scaled(bits, 8.0 * number(device, bytes_key), "bit/s"),
	       scaled(ops, number(device, ops_key), "op/s"));
}

static void print_population(struct json_object *device)
{
	struct json_object *population = member(device, "population");
	const char *gap = "";

	printf("  population ");
	if (population) {
		json_object_object_foreach(population, class, entry) {
			char sum[CELL_BYTES];

			printf("%s%" PRIu64 " %s (weight %s)", gap, number(entry, "apps"), class,
			       weight(sum, number(entry, "weight_milli")));
			gap = ", ";
		}
	}
	printf("\n");
}

static void print_device(struct json_object *device)
{
	char bytes[CELL_BYTES];

	printf("device %s: %" PRIu64 " clients\n", text(device, "device"),
	       number(device, "clients"));
	print_rate(device, "MaxRate", "max_bytes_per_s", "max_ops_per_s");
	print_rate(device, "Rmin", "rmin_bytes_per_s", "rmin_ops_per_s");
	print_rate(device, "SafeUtil", "safeutil_bytes_per_s", "safeutil_ops_per_s");
	printf("  token      TokenBytes %s, TokenOps %" PRIu64 ", one each %.3f us\n",
	       scaled(bytes, number(device, "token_bytes"), "B"), number(device, "token_ops"),
	       number(device, "token_interval_ns") / 1000.0);
	printf("  granted    %" PRIu64 " tokens, %s\n", number(device, "granted_tokens"),
	       scaled(bytes, number(device, "granted_bytes"), "B"));
	print_population(device);
	printf("\n");
}

static void print_client(struct json_object *client)
{
	struct json_object *claimed = member(client, "claimed");
	char share[CELL_BYTES], granted[CELL_BYTES], queued[CELL_BYTES];

	printf("%7" PRIu64 " %6" PRIu64 " %-16s %-10s %-10s %6s %6" PRIu64 " %10" PRIu64
	       " %10s %10" PRIu64 " %10s\n",
	       number(client, "pid"), number(client, "uid"), text(client, "command"),
	       text(client, "device"), text(client, "class"),
	       weight(share, number(client, "weight_milli")), number(client, "flows"),
	       number(client, "granted_tokens"),
	       scaled(granted, number(client, "granted_bytes"), "B"), number(claimed, "messages"),
	       scaled(queued, number(claimed, "queued_bytes"), "B"));
}

void jstd_ctl_status_print(struct json_object *status)
{
	struct json_object *devices = member(status, "devices");
	struct json_object *clients = member(status, "clients");
	size_t n = json_object_array_length(clients);

	printf("justitiad %s, pid %" PRIu64 ", up %.0f s: %zu of %" PRIu64
	       " clients, %" PRIu64 " attached so far, %" PRIu64 " refused\n\n",
	       text(status, "version"), number(status, "pid"), number(status, "uptime_ns") / 1e9, n,
	       number(status, "max_clients"), number(status, "attached"),
	       number(status, "refused"));
	for (size_t i = 0; i < json_object_array_length(devices); i++)
		print_device(json_object_array_get_idx(devices, i));
	if (!n)
		return;
	printf("%7s %6s %-16s %-10s %-10s %6s %6s %10s %10s %10s %10s\n", "PID", "UID", "COMMAND",
	       "DEVICE", "CLASS", "WEIGHT", "FLOWS", "TOKENS", "BYTES", "MESSAGES*", "QUEUED*");
	for (size_t i = 0; i < n; i++)
		print_client(json_object_array_get_idx(clients, i));
	printf("TOKENS and BYTES were granted by the daemon. * is what the client claims.\n");
}
