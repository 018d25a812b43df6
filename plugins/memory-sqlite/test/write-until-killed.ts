/**
 * A program that writes entries through the plugin, four at a time, until it is killed. It prints the number of each
 * entry after the entry is stored.
 */
import { writeSync } from "node:fs";
import { scriptedContext } from "../../../test/support/scripted-context.ts";
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
    writeSync(1, `${number}\n`);
  }
}
await Promise.all([writeEntries(), writeEntries(), writeEntries(), writeEntries()]);
