/** Invalid modules cause the same errors inline and hosted, and changed modules are reloaded. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { codeOf } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import {
  createSharedFolder,
  findEntry,
  LOADING_MODES,
  NO_NETWORK,
  pluginText,
  catchRejection,
  usePluginLoaders,
} from "./use-plugin-loaders.ts";

usePluginLoaders();

describe.each(LOADING_MODES)("%s", (_how, mode, loader) => {
  test.each([
    ["a syntax error", "export const plugin = {", /could not be loaded: (?!undefined)/],
    ["a throw at import", "throw new Error('no import today');", /could not be loaded: no import today$/],
    ["no plugin", "export const other = 1;", "The module of odd does not export `plugin`."],
    ["another name", pluginText({ name: "even" }), /not valid: its name is "even"; package.json says odd/],
    ["another category", pluginText({ category: "skill" }), /its category is skill; package.json says tool/],
    [
      "an unknown category",
      pluginText({ category: "gadget" }),
      /its category "gadget" is not one of adapter, tool/,
    ],
    ["no subscriptions", pluginText({ subscriptions: 1 }), /subscriptions is not a function/],
  ])("refuses a module with %s and reports the same error in every mode", async (_case, text, message) => {
    const dir = createSharedFolder();
    const module = join(dir, "odd.mjs");
    writeFileSync(module, text);
    const plugin = { ...findEntry("shop"), name: "odd", dir, module };
    const error = await catchRejection(loader.load(plugin, mode, NO_NETWORK));
    expect(codeOf(error)).toBe("plugin.invalid");
    if (typeof message === "string") expect(error.message).toBe(message);
    else expect(error.message).toMatch(message);
    if (text.startsWith("throw")) expect(error.stack).toContain(`${module}`);
  });

  test("reloads a changed file", async () => {
    const dir = createSharedFolder();
    const entry = { ...findEntry("shop"), name: "odd", dir, module: join(dir, "odd.mjs") };
    const versions: string[] = [];
    for (const version of ["1.0.0", "1.0.1"]) {
      writeFileSync(entry.module, pluginText({ version }));
      const loaded = await loader.load(entry, mode, NO_NETWORK);
      versions.push(loaded.plugin.version);
      await loaded.close();
    }
    expect(versions).toEqual(["1.0.0", "1.0.1"]);
  });
});
