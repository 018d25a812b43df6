/** Installed files that another process changes all the time: only verified bytes run (integrity.exec). */
import { expect } from "vitest";
import { startSwapGateway, type SwapOptions, swapRun } from "../support/swap-run.ts";
import { verifies } from "../support/verifies.ts";

/** 1000 takes about four minutes. */
const CALLS = Number(process.env.BACKPLANE_SWAP_CALLS ?? 300);

async function expectIntact(options: SwapOptions, calls: number): Promise<void> {
  const swapped = await startSwapGateway(options);
  try {
    const count = await swapRun(swapped, calls);
    const { calls: made, intact, refused, swaps } = count;
    console.log(JSON.stringify({ ...options, swaps, made, intact, refused, changed: count.changed.length }));
    expect(count.changed).toEqual([]);
    expect(count.failed).toEqual([]);
    expect(swaps).toBeGreaterThanOrEqual(1_000);
    expect(intact).toBeGreaterThan(0);
    expect(made).toBe(calls);
  } finally {
    await swapped.gateway.dispose();
  }
}

verifies("integrity.exec", "runs no changed byte in 1,000 swaps, isolated, worker, spare and tool file", () =>
  expectIntact({ sandbox: true, kinds: ["sh", "py", "js", "rpc", "tool"] }, CALLS),
);

verifies("integrity.exec", "runs no changed byte in 1,000 swaps without a sandbox", () =>
  expectIntact({ sandbox: false, kinds: ["sh", "py", "js", "rpc"] }, Math.ceil(CALLS / 3)),
);
