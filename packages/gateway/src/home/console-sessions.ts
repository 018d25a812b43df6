/**
 * Sessions of the console that outlive a restart, as hashes of their cookies. They belong to the admin token that
 * created them: a new admin token ends all of them.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ApiOptions } from "@backplane/api";
import type { Logger } from "@backplane/ports";
import { z } from "zod";
import { replaceContent } from "./replace-content.ts";

type SavedConsoleSessions = NonNullable<ApiOptions["auth"]["saved_sessions"]>;

const FileSchema = z.object({
  credential: z.string(),
  sessions: z.array(z.tuple([z.string(), z.number()])).max(1_000),
});

export function openConsoleSessions(dir: string, admin_token: string, log: Logger): SavedConsoleSessions {
  const file = join(dir, "console-sessions.json");
  const credential = createHash("sha256").update(`console ${admin_token}`).digest("hex");
  return {
    load() {
      try {
        const saved = FileSchema.parse(JSON.parse(readFileSync(file, "utf8")));
        return saved.credential === credential ? saved.sessions : [];
      } catch {
        // If the file is missing or damaged, all users must log in again.
        return [];
      }
    },
    save(sessions) {
      try {
        replaceContent(file, JSON.stringify({ credential, sessions }));
      } catch (error) {
        log.warn({ err: error }, "console sessions could not be saved; a restart will end them");
      }
    },
  };
}
