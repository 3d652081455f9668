// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* bucket.c - the balance of bytes and operations that an app may spend. */
#include "core.h"

static int64_t at_most(int64_t value, uint32_t cap)
{
	return value > (int64_t)cap ? (int64_t)cap : value;
}

void jst_balance_clamp(struct jst_balance *balance, uint32_t cap_bytes, uint32_t cap_ops)
{
	balance->bytes = at_most(balance->bytes, cap_bytes);
	balance->ops = at_most(balance->ops, cap_ops);
}

void jst_balance_add(struct jst_balance *balance, const struct jst_token *token,
		     uint32_t cap_bytes, uint32_t cap_ops)
{
	balance->bytes += token->bytes;
	balance->ops += token->ops;
	jst_balance_clamp(balance, cap_bytes, cap_ops);
}

bool jst_balance_allows(const struct jst_balance *balance)
{
	return balance->bytes > 0 && balance->ops > 0;
}

void jst_balance_spend(struct jst_balance *balance, uint64_t bytes, uint64_t ops)
{
	balance->bytes -= (int64_t)bytes;
	balance->ops -= (int64_t)ops;
}

/* Tokens of @token until @queued have been spent from @balance, the last into debt. */
static uint64_t tokens_for(int64_t balance, uint64_t queued, uint32_t token)
{
	int64_t missing = (int64_t)queued - balance;

	if (missing <= 0)
		return 0;
	return ((uint64_t)missing + token - 1) / token;
}

uint64_t jst_balance_short(const struct jst_balance *balance, uint64_t queued_bytes,
			   uint64_t queued_ops, uint32_t token_bytes, uint32_t token_ops)
{
	uint64_t by_bytes, by_ops, tokens;

	if (!queued_ops)
		return 0;
	by_bytes = tokens_for(balance->bytes, queued_bytes, token_bytes ? token_bytes : 1);
	by_ops = tokens_for(balance->ops, queued_ops, token_ops ? token_ops : 1);
	tokens = by_bytes > by_ops ? by_bytes : by_ops;
	/* Empty messages cost an operation, and need a positive balance of bytes. */
	if (!tokens && !jst_balance_allows(balance))
		tokens = 1;
	return tokens;
}
