/**
 * Runs as a process: writes entries through the plugin, four at a time, and prints the number of each stored
 * entry.
 */
import { writeSync } from "node:fs";
import { scriptedContext } from "../../strategy-react/test/scripted-context.ts";
import { plugin } from "../src/plugin.ts";
import { writeEvent } from "./memory-events.ts";

const [stateDir = "", from = "0"] = process.argv.slice(2);
const ctx = scriptedContext({ stateDir });
await plugin.onLoad!(ctx);

let next = Number(from);
async function writeOn(): Promise<never> {
  for (;;) {
    const number = next;
    next += 1;
    await plugin.onEvent!(writeEvent({ text: `entry number${number} of the ledger` }), ctx);
    writeSync(1, `${number}\n`);
  }
}
await Promise.all([writeOn(), writeOn(), writeOn(), writeOn()]);
