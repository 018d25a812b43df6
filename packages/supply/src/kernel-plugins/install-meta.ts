/**
 * `install-meta.json`: when each source was first installed. An upgrade keeps the date, because the older of two
 * plugins with the same tool name wins (tools.precedence). Without a recorded date, the creation time of the folder is
 * used.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { PluginEntry } from "@backplane/contract";
import { writeJson } from "../files/checked-json.ts";

type Dates = Record<string, string>;

const FILE = "install-meta.json";

export async function recordInstallDate(plugins_dir: string, source: string, now: Date): Promise<void> {
  const dates = await readDates(plugins_dir);
  if (!Object.hasOwn(dates, source)) await writeDates(plugins_dir, { ...dates, [source]: now.toISOString() });
}

export async function removeInstallDate(plugins_dir: string, source: string): Promise<void> {
  const { [source]: date, ...others } = await readDates(plugins_dir);
  if (date !== undefined) await writeDates(plugins_dir, others);
}

/** Adds the date of installation to entries that are not bundled, if it is known. */
export async function withInstallDates(
  plugins_dir: string,
  entries: readonly PluginEntry[],
): Promise<PluginEntry[]> {
  const dates = await readDates(plugins_dir);
  return await Promise.all(
    entries.map(async (entry) => {
      if (entry.origin === "bundled") return entry;
      const installed_at = Object.hasOwn(dates, entry.source)
        ? dates[entry.source]
        : await readCreationDate(entry.dir);
      return installed_at === undefined ? entry : { ...entry, installed_at };
    }),
  );
}

/** Not every file system stores the creation time. */
async function readCreationDate(dir: string): Promise<string | undefined> {
  try {
    const { birthtimeMs, birthtime } = await stat(dir);
    return birthtimeMs > 0 ? birthtime.toISOString() : undefined;
  } catch {
    return undefined;
  }
}

/** If the file is unreadable, only the dates are lost. */
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
  await writeJson(join(plugins_dir, FILE), dates);
}
