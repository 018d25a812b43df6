/**
 * A program that writes entries through the plugin, four at a time, until it is killed. It prints the number of each
 * entry after the entry is stored.
 */
import { scriptedContext } from "../../../test/support/kernel-plugins/scripted-context.ts";
import { plugin } from "../src/plugin.ts";
import { writeEvent } from "./memory-events.ts";

const [stateDir = "", from = "0"] = process.argv.slice(2);
const ctx = scriptedContext({ stateDir });
await plugin.onLoad!(ctx);

let next = Number(from);
async function writeEntries(): Promise<never> {
  for (;;) {
    const number = next;
    next += 1;
    await plugin.onEvent!(writeEvent({ text: `entry number${number} of the ledger` }), ctx);
    await report(number);
  }
}

/**
 * Waits while the pipe is full. A synchronous write would fail then, because the plugin's thread made standard output
 * non-blocking.
 */
async function report(number: number): Promise<void> {
  await new Promise<void>((resolve) => process.stdout.write(`${number}\n`, () => resolve()));
}
await Promise.all([writeEntries(), writeEntries(), writeEntries(), writeEntries()]);
