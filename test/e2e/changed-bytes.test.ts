/** Another process keeps changing installed files; test/slow has the long run over every kind of plugin. */
import { expect } from "vitest";
import { callWhileSwapping, startSwapGateway } from "../support/plugins/swap-gateway.ts";
import { verifies } from "../support/verifies.ts";

verifies("integrity.exec", "never runs changed content while installed files are swapped", async () => {
  const swapped = await startSwapGateway({ sandbox: true, kinds: ["sh", "rpc"] });
  try {
    const count = await callWhileSwapping(swapped, 40);
    expect(count.changed).toEqual([]);
    expect(count.failed).toEqual([]);
    expect(count.swaps).toBeGreaterThan(0);
    expect(count.calls).toBe(40);
  } finally {
    await swapped.gateway.dispose();
  }
});
