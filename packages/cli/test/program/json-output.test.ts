/** Runs the commands with --json against a real gateway: one JSON document on stdout, no ANSI codes. */
import type { Command } from "commander";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { EXIT } from "../../src/index.ts";
import { buildProgram } from "../../src/program/program.ts";
import { captureIo } from "../support/capture-io.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.close());

/** `up` and `down` have their own tests, `completion` prints a script, a tail does not end, `mcp` speaks MCP. */
const EXCLUDED = ["up", "down", "completion", "events tail", "mcp"];

function listCommands(command: Command, path: string[] = []): string[][] {
  return command.commands.flatMap((sub) => {
    const command_path = [...path, sub.name()];
    if (sub.commands.length > 0) return listCommands(sub, command_path);
    // A bare name gets a different error, which suggests an npm package.
    const value = command_path.join(" ") === "plugin install" ? "./x_1" : "x_1";
    const required = sub.registeredArguments.filter((argument) => argument.required).map(() => value);
    return EXCLUDED.includes(command_path.join(" ")) ? [] : [[...command_path, ...required]];
  });
}

const COMMANDS = listCommands(buildProgram(captureIo(), false, () => {}));

describe("--json", () => {
  test("covers more than 55 commands", () => {
    expect(COMMANDS.length).toBeGreaterThan(55);
  });

  for (const argv of COMMANDS) {
    verifies("cli.seed", `prints one JSON document: ${argv.join(" ")}`, async () => {
      const { exit, out, err } = await gateway.backplane([...argv, "--json", "--yes"]);
      expect(Object.values(EXIT)).toContain(exit);
      expect(out.trimEnd().split("\n"), out).toHaveLength(1);
      const document = JSON.parse(out) as { error?: { exit_code: number; fix: string } };
      expect(out + err).not.toContain("\u001b");
      if (exit === EXIT.ok) return;
      expect(document.error).toMatchObject({ exit_code: exit, fix: expect.stringMatching(/./) });
      expect(err.split("\n")).toHaveLength(4);
    });
  }
});

describe("text", () => {
  test.each([["plugin list"], ["doctor"], ["status"], ["audit list"]])(
    "%s prints no color without a terminal or with NO_COLOR",
    async (name) => {
      const argv = name.split(" ");
      const piped = await gateway.backplane(argv);
      expect(piped.out + piped.err).not.toContain("\u001b");
      const terminal = await gateway.backplane(argv, { tty: true, env: { NO_COLOR: "1" } });
      expect(terminal.out + terminal.err).not.toContain("\u001b");
    },
  );
});
