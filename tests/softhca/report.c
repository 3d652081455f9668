// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Counters of a running world, as a table for people and as JSON for programs. */
#include <inttypes.h>
#include <stdio.h>

#include "report.h"

static const char *type_name(uint32_t type)
{
	static const char *const name[] = {
		[2] = "RC", [3] = "UC", [4] = "UD", [9] = "XRC_SEND", [10] = "XRC_RECV",
	};

	return type < sizeof(name) / sizeof(name[0]) && name[type] ? name[type] : "?";
}

static const char *state_name(uint32_t state)
{
	static const char *const name[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state < sizeof(name) / sizeof(name[0]) ? name[state] : "?";
}

static const char *link_name(const struct hca_stat_world *w)
{
	return w->is_eth ? "eth" : "ib";
}

void hca_report_table(const struct hca_stat *st)
{
	struct hca_stat_world w;
	struct hca_stat_port p;
	struct hca_stat_qp q;
	uint32_t pos = 0;

	hca_stat_world(st, &w);
	printf("model %s, ", w.model);
	if (w.is_virtual)
		printf("virtual time%s", w.is_held ? ", held" : "");
	else
		printf("slowdown %u", w.slowdown);
	printf(", driver %s, link %s, card process %d, up for %.6f s of model time\n", w.driver,
	       link_name(&w), (int)w.card_pid, (double)w.elapsed_ns / 1e9);
	printf("\n%-16s %18s %14s %18s %14s\n", "host", "sent bytes", "messages",
	       "received bytes", "messages");
	for (uint32_t i = 0; !hca_stat_port(st, i, &p); i++)
		printf("%-16s %18" PRIu64 " %14" PRIu64 " %18" PRIu64 " %14" PRIu64 "\n", p.host,
		       p.tx_bytes, p.tx_msgs, p.rx_bytes, p.rx_msgs);
	printf("\n%-16s %8s %8s %-8s %-6s %18s %14s %18s %14s\n", "host", "pid", "qpn", "type",
	       "state", "sent bytes", "messages", "received bytes", "messages");
	while (hca_stat_qp_next(st, &pos, &q) == 1)
		printf("%-16s %8d %8u %-8s %-6s %18" PRIu64 " %14" PRIu64 " %18" PRIu64
		       " %14" PRIu64 "\n", q.host, (int)q.pid, q.qpn, type_name(q.type),
		       state_name(q.state), q.tx_bytes, q.tx_msgs, q.rx_bytes, q.rx_msgs);
}

static void print_clock(const struct hca_stat *st, const struct hca_stat_world *w)
{
	struct hca_stat_program p;
	uint32_t pos = 0;

	printf(" \"clock\": \"%s\"", w->is_virtual ? "virtual" : "real");
	if (w->is_virtual)
		printf(", \"held\": %s, \"parked\": %s", w->is_held ? "true" : "false",
		       w->is_parked ? "true" : "false");
	printf(",\n \"programs\": [");
	for (int n = 0; hca_stat_program_next(st, &pos, &p) == 1; n++)
		printf("%s\n  {\"pid\": %d, \"waits\": \"%s\"}", n ? "," : "", (int)p.pid,
		       p.waits);
	printf("\n ],\n");
}

/* Host names need no escaping: the configuration admits none that would. */
void hca_report_json(const struct hca_stat *st)
{
	struct hca_stat_world w;
	struct hca_stat_port p;
	struct hca_stat_qp q;
	uint32_t pos = 0;

	hca_stat_world(st, &w);
	printf("{\"source\": \"emulated\", \"model\": \"%s\", \"slowdown\": %u, "
	       "\"driver\": \"%s\", \"link\": \"%s\", \"card_pid\": %d, "
	       "\"model_ns\": %" PRIu64 ",\n", w.model, w.slowdown, w.driver, link_name(&w),
	       (int)w.card_pid, w.elapsed_ns);
	print_clock(st, &w);
	printf(" \"ports\": [");
	for (uint32_t i = 0; !hca_stat_port(st, i, &p); i++)
		printf("%s\n  {\"host\": \"%s\", \"tx_bytes\": %" PRIu64 ", \"tx_messages\": %"
		       PRIu64 ", \"rx_bytes\": %" PRIu64 ", \"rx_messages\": %" PRIu64 "}",
		       i ? "," : "", p.host, p.tx_bytes, p.tx_msgs, p.rx_bytes, p.rx_msgs);
	printf("\n ],\n \"queue_pairs\": [");
	for (int n = 0; hca_stat_qp_next(st, &pos, &q) == 1; n++)
		printf("%s\n  {\"host\": \"%s\", \"pid\": %d, \"qpn\": %u, \"type\": \"%s\", "
		       "\"state\": \"%s\", \"bytes\": %" PRIu64 ", \"messages\": %" PRIu64
		       ", \"rx_bytes\": %" PRIu64 ", \"rx_messages\": %" PRIu64 "}",
		       n ? "," : "", q.host, (int)q.pid, q.qpn, type_name(q.type),
		       state_name(q.state), q.tx_bytes, q.tx_msgs, q.rx_bytes, q.rx_msgs);
	printf("\n ]}\n");
}
