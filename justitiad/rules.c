// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* rules.c - rule, else wish, else default. */
#include "rules.h"

#include <fnmatch.h>
#include <string.h>

static bool rule_fits(const struct jstd_rule *rule, const struct jstd_peer *peer)
{
	if (rule->has_user && rule->uid != peer->uid)
		return false;
	/* No FNM_PATHNAME: "/opt/mpi" and everything below is one pattern, with a star. */
	return !rule->executable || !fnmatch(rule->executable, peer->executable, 0);
}

static const struct jstd_rule *rule_find(const struct jstd_conf *conf,
					 const struct jstd_peer *peer)
{
	for (size_t i = 0; i < conf->n_rules; i++) {
		if (rule_fits(&conf->rules[i], peer))
			return &conf->rules[i];
	}
	return NULL;
}

static void wish_read(const struct jst_msg_hello *hello, struct jstd_verdict *verdict)
{
	char text[JST_TEXT_BYTES + 1] = { 0 };

	verdict->class = JST_CLASS_BANDWIDTH;
	verdict->weight_milli = JST_WEIGHT_MILLI_DEFAULT;
	memcpy(text, hello->class, JST_TEXT_BYTES);
	verdict->bad_class = text[0] && jst_class_parse(text, &verdict->class);
	memcpy(text, hello->weight, JST_TEXT_BYTES);
	verdict->bad_weight = text[0] && jst_weight_parse(text, &verdict->weight_milli);
}

void jstd_rules_judge(const struct jstd_conf *conf, const struct jstd_peer *peer,
		      const struct jst_msg_hello *hello, struct jstd_verdict *verdict)
{
	const struct jstd_rule *rule = rule_find(conf, peer);

	memset(verdict, 0, sizeof(*verdict));
	wish_read(hello, verdict);
	verdict->rule = rule;
	if (!rule)
		return;
	verdict->denied = rule->deny;
	if (rule->has_class)
		verdict->class = rule->class;
	if (rule->has_weight)
		verdict->weight_milli = rule->weight_milli;
}
