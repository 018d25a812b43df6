/** Another process keeps changing installed files: only verified bytes run (integrity.exec). */
import { expect } from "vitest";
import { callWhileSwapping, type SwapOptions, startSwapGateway } from "../../support/plugins/swap-gateway.ts";
import { verifies } from "../../support/verifies.ts";

/** 1,000 calls take about four minutes. */
const CALLS = Number(process.env.BACKPLANE_SWAP_CALLS ?? 300);

/** A test runs rounds until there were enough swaps; the swaps in a round depend on the speed of the calls. */
const MAX_ROUNDS = 10;

async function expectIntact(options: SwapOptions, calls: number): Promise<void> {
  const swapped = await startSwapGateway(options);
  const total = { swaps: 0, calls: 0, intact: 0, refused: 0 };
  try {
    for (let round = 0; round < MAX_ROUNDS && total.swaps < 1_000; round++) {
      const count = await callWhileSwapping(swapped, calls);
      expect(count.changed).toEqual([]);
      expect(count.failed).toEqual([]);
      expect(count.calls).toBe(calls);
      for (const name of ["swaps", "calls", "intact", "refused"] as const) total[name] += count[name];
    }
    console.log(JSON.stringify({ ...options, ...total }));
    expect(total.swaps).toBeGreaterThanOrEqual(1_000);
    expect(total.intact).toBeGreaterThan(0);
  } finally {
    await swapped.gateway.dispose();
  }
}

verifies(
  "integrity.exec",
  "runs no changed byte during 1,000 swaps of the files of isolated, worker and tool-file plugins",
  () => expectIntact({ sandbox: true, kinds: ["sh", "py", "js", "rpc", "tool"] }, CALLS),
);

verifies("integrity.exec", "runs no changed byte during 1,000 swaps without a sandbox", () =>
  expectIntact({ sandbox: false, kinds: ["sh", "py", "js", "rpc"] }, Math.ceil(CALLS / 3)),
);
