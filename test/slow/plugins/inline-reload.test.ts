/** The memory that the gateway still uses after reloads of an inline plugin. */
import { execFile } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { writeManyFilesPlugin } from "../../support/kernel-plugins/many-files-plugin.ts";

const MAX_MB = 5;

test("a thousand reloads of a plugin with several files use less than 5 MB more memory", async () => {
  const folder = writeManyFilesPlugin("heavy");
  const program = join(folder, "measure.mjs");
  const loader = resolve("packages/gateway/src/plugins/import-again.ts");
  writeFileSync(
    program,
    `import { writeFileSync } from "node:fs";
    const { importAgain } = await import(${JSON.stringify(loader)});
    const folder = ${JSON.stringify(folder)};
    const reload = async (times) => {
      for (let n = 0; n < times; n++) {
        writeFileSync(folder + "/src/word.js", "export const word = " + n + ";");
        const { plugin } = await importAgain(folder + "/index.js", folder);
        if (!(await plugin.healthCheck()).summary.startsWith(n + " ")) throw new Error("stale");
      }
    };
    const heap = async () => {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 50));
      gc();
      return process.memoryUsage().heapUsed;
    };
    await reload(100);
    const before = await heap();
    await reload(1000);
    console.log(((await heap()) - before) / 1024 / 1024);`,
  );
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ["--expose-gc", program], { timeout: 120_000 });
  rmSync(folder, { recursive: true });
  expect(Number(stdout)).toBeLessThan(MAX_MB);
});
