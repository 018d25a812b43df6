/** Reads and extends the conversation of a hosted harness, and asks for permission for its actions. */
import { randomUUID } from "node:crypto";
import type { Block, InvocationContext } from "@backplane/contract";
import type { AgentAction, AgentPermission } from "./contracts.ts";
import type { GatewayAccess } from "./gateway-access.ts";
import { fail } from "./outcome.ts";

const PAGE_SIZE = 500;
/** The binding of the gateway's own tool that asks for permission. */
const ACTION_BINDING = "bind_core_harness_action";

type ChainContext = Pick<InvocationContext, "chain_id">;

export async function readBlocks(gateway: GatewayAccess, context: ChainContext): Promise<Block[]> {
  const path = blocksPath(context);
  const blocks: Block[] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const query = `?limit=${PAGE_SIZE}${after === undefined ? "" : `&after=${after}`}`;
    const page = await gateway.json<{ items: Block[]; next: string | null }>(path + query);
    blocks.push(...page.items);
    after = page.next;
  }
  return blocks;
}

export async function addBlocks(
  gateway: GatewayAccess,
  context: ChainContext,
  blocks: readonly Block[],
): Promise<void> {
  if (blocks.length > 0) await gateway.json(blocksPath(context), { body: { blocks } });
}

export async function requestPermission(
  gateway: GatewayAccess,
  input: AgentAction,
): Promise<AgentPermission> {
  const body = JSON.stringify({ binding_id: ACTION_BINDING, input });
  // A retry with the same key waits for the same permission request.
  const headers = { "content-type": "application/json", "idempotency-key": randomUUID() };
  for (;;) {
    const response = await gateway.fetch("/v1/invocations?wait=20", { method: "POST", headers, body });
    const invocation = (await response.json()) as {
      status?: string;
      error?: { message?: string } | null;
    };
    if (response.status === 202) continue;
    if (response.ok && invocation.status === "succeeded") return { allowed: true, reason: "" };
    return {
      allowed: false,
      reason: invocation.error?.message ?? `The permission request ended as ${invocation.status}.`,
    };
  }
}

function blocksPath({ chain_id }: ChainContext): string {
  const id = chain_id ?? fail("The call has no conversation. Name a session in the target.");
  return `/v1/chains/${encodeURIComponent(id)}/blocks`;
}
