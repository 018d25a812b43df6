/**
 * Connects assistants to the gateway: shows the address, creates a key for each client, and shows the entry for the
 * client's configuration file. That file is on the client's computer, so only a command there can edit it.
 */
import { type ApiKey, ROLES, type Role } from "@backplane/contract";
import { Button, Select, TagsInput } from "@mantine/core";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useClient, useServices } from "../../api/services.ts";
import { keyQueries } from "../../api/settings.ts";
import { CopyButton } from "../../parts/actions/copy-button.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { CodeBlock } from "../../parts/values/json-view.tsx";
import { Time } from "../../parts/values/time.tsx";
import { RevokeKey } from "./api-keys.tsx";

interface ClientFormat {
  value: string;
  label: string;
  file: string;
  /** The text for the file of the client. */
  entry: (url: string, token: string) => string;
}

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const json = (value: object) => JSON.stringify(value, null, 2);

const CLIENT_FORMATS: readonly ClientFormat[] = [
  {
    value: "claude",
    label: "Claude Code",
    file: "~/.claude.json",
    entry: (url, token) => json({ mcpServers: { backplane: { type: "http", url, headers: bearer(token) } } }),
  },
  {
    value: "codex",
    label: "Codex",
    file: "~/.codex/config.toml",
    entry: (url, token) =>
      `[mcp_servers.backplane]\nurl = "${url}"\nhttp_headers = { Authorization = "Bearer ${token}" }`,
  },
  {
    value: "opencode",
    label: "OpenCode",
    file: "~/.config/opencode/opencode.json",
    entry: (url, token) => json({ mcp: { backplane: { type: "remote", url, headers: bearer(token) } } }),
  },
  {
    value: "gemini",
    label: "Gemini CLI",
    file: "~/.gemini/settings.json",
    entry: (url, token) => json({ mcpServers: { backplane: { httpUrl: url, headers: bearer(token) } } }),
  },
  {
    value: "vscode",
    label: "VS Code",
    file: "mcp.json of your user folder",
    entry: (url, token) => json({ servers: { backplane: { type: "http", url, headers: bearer(token) } } }),
  },
  {
    value: "cursor",
    label: "Cursor",
    file: "~/.cursor/mcp.json",
    entry: (url, token) => json({ mcpServers: { backplane: { type: "http", url, headers: bearer(token) } } }),
  },
];

/** The prefix of the names of client keys, here and in `backplane client connect`. */
const KEY_PREFIX = "client:";

export function ClientConnections() {
  const { client, queries } = useServices();
  const [chosen, setChosen] = useState(CLIENT_FORMATS[0]!.value);
  const [role, setRole] = useState<Role>("user");
  const [tools, setTools] = useState<string[]>([]);
  const format = CLIENT_FORMATS.find(({ value }) => value === chosen)!;
  const url = `${location.origin}/mcp`;
  const connect = useMutation({
    mutationFn: () =>
      client.keys.create({
        name: `${KEY_PREFIX}${format.value}`,
        role,
        scopes: ["invocations:write"],
        ...(tools.length === 0 ? {} : { tools }),
      }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["keys"] }),
  });
  const token = connect.data?.token ?? null;
  return (
    <div className={layout.stack}>
      <Card title="Connect an assistant">
        <div className={layout.form}>
          <p className={layout.text}>
            Every MCP client gets the tools of the gateway at <code>{url}</code> with its own key.
          </p>
          <div className={layout.columns}>
            <Select
              label="Client"
              allowDeselect={false}
              data={CLIENT_FORMATS.map(({ value, label }) => ({ value, label }))}
              value={chosen}
              onChange={(next) => {
                setChosen(next ?? chosen);
                connect.reset();
              }}
            />
            <Select
              label="Role"
              allowDeselect={false}
              data={[...ROLES]}
              value={role}
              onChange={(next) => setRole(next as Role)}
            />
          </div>
          <TagsInput
            label="Tools that the client lists"
            description="Names, * for any characters, or @NAME of a profile. If empty, all tools."
            value={tools}
            onChange={setTools}
          />
          <Notice tone="info" title="The client's file is on the computer where the client runs">
            <p>A browser cannot edit it. On that computer, this command creates a key and edits the file:</p>
            <CliCommand
              command={shellCommand(
                "backplane",
                "client",
                "connect",
                format.value,
                "--url",
                location.origin,
                ...(role === "user" ? [] : ["--role", role]),
                ...(tools.length === 0 ? [] : ["--tools", tools.join(",")]),
              )}
            />
          </Notice>
          <div className={layout.row}>
            <Button variant="default" loading={connect.isPending} onClick={() => connect.mutate()}>
              Create a key and show the entry
            </Button>
          </div>
          {connect.error !== null && <ErrorView error={connect.error} />}
          {token !== null && <ClientEntry format={format} url={url} token={token} />}
        </div>
      </Card>
      <ConnectedClients />
    </div>
  );
}

function ClientEntry({ format, url, token }: { format: ClientFormat; url: string; token: string }) {
  const text = format.entry(url, token);
  return (
    <div className={layout.tight}>
      <Notice tone="warn" title="Copy the entry now: its key is not shown again" />
      <Fields items={[["File", <code key="file">{format.file}</code>]]} />
      <CodeBlock label={`Entry for ${format.label}`} text={text} />
      <div>
        <CopyButton text={text} label="Copy the entry" />
      </div>
    </div>
  );
}

/** Lists the clients that have a key. Revoking the key disconnects the client. */
function ConnectedClients() {
  const keys = useRows(useInfiniteQuery(keyQueries.list(useClient())));
  const connected = keys.filter(isClientKey);
  const [revoking, setRevoking] = useState<ApiKey | null>(null);
  return (
    <Card title="Connected clients">
      {connected.length === 0 ? (
        <p className={layout.dimmed}>No client is connected.</p>
      ) : (
        <ul className={layout.sentences}>
          {connected.map((key) => (
            <li key={key.id} className={layout.between}>
              <span>
                <strong>{titleOf(key)}</strong> with the role {key.role}, since <Time at={key.created_at} />
              </span>
              <Button
                size="compact-sm"
                variant="default"
                onClick={() => setRevoking(key)}
                aria-label={`Disconnect ${titleOf(key)}`}
              >
                Disconnect
              </Button>
            </li>
          ))}
        </ul>
      )}
      {revoking !== null && <RevokeKey api_key={revoking} onClose={() => setRevoking(null)} />}
    </Card>
  );
}

function titleOf({ name }: ApiKey): string {
  const client = name.slice(KEY_PREFIX.length);
  return CLIENT_FORMATS.find(({ value }) => value === client)?.label ?? client;
}

function isClientKey({ name, revoked_at }: ApiKey): boolean {
  return revoked_at === null && name.startsWith(KEY_PREFIX);
}
