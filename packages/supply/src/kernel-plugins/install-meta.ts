/**
 * `install-meta.json`: when each source was first installed. An upgrade keeps the date, because of two plugins with one
 * tool name the older has it (tools.precedence). Where nothing was noted, the folder's own birth is the best guess.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { PluginEntry } from "@backplane/contract";
import { keepJson } from "../files/checked-json.ts";

type Dates = Record<string, string>;

const FILE = "install-meta.json";

export async function noteInstalled(plugins_dir: string, source: string, now: Date): Promise<void> {
  const dates = await readDates(plugins_dir);
  if (!Object.hasOwn(dates, source)) await writeDates(plugins_dir, { ...dates, [source]: now.toISOString() });
}

export async function forgetInstalled(plugins_dir: string, source: string): Promise<void> {
  const { [source]: date, ...others } = await readDates(plugins_dir);
  if (date !== undefined) await writeDates(plugins_dir, others);
}

/** The same entries; what was installed says since when, as far as that is known. */
export async function withDates(
  plugins_dir: string,
  entries: readonly PluginEntry[],
): Promise<PluginEntry[]> {
  const dates = await readDates(plugins_dir);
  return await Promise.all(
    entries.map(async (entry) => {
      if (entry.origin === "bundled") return entry;
      const installed_at = Object.hasOwn(dates, entry.source)
        ? dates[entry.source]
        : await birthOf(entry.dir);
      return installed_at === undefined ? entry : { ...entry, installed_at };
    }),
  );
}

/** Not every file system keeps one. */
async function birthOf(dir: string): Promise<string | undefined> {
  try {
    const { birthtimeMs, birthtime } = await stat(dir);
    return birthtimeMs > 0 ? birthtime.toISOString() : undefined;
  } catch {
    return undefined;
  }
}

/** A file that cannot be used costs the dates and nothing else. */
async function readDates(plugins_dir: string): Promise<Dates> {
  try {
    const value = JSON.parse(await readFile(join(plugins_dir, FILE), "utf8")) as unknown;
    if (typeof value !== "object" || value === null) return {};
    return Object.fromEntries(
      Object.entries(value).filter(([, date]) => typeof date === "string" && !Number.isNaN(Date.parse(date))),
    ) as Dates;
  } catch {
    return {};
  }
}

async function writeDates(plugins_dir: string, dates: Dates): Promise<void> {
  await keepJson(join(plugins_dir, FILE), dates);
}
