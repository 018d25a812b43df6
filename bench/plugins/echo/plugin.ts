import { definePlugin, hook, serve, tool } from "@backplane/sdk";

const echo = tool({
  id: "echo",
  run: (input) => ({ content: [{ type: "text", text: (input as { text: string }).text }] }),
});

const note = hook({ id: "note", on: ["package.installed"], handle: () => undefined });

serve(definePlugin({ package_id: "bench/echo", version: "1.0.0", exports: [echo, note] }));
