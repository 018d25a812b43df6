/** Model providers, policy, keys, clients, trusted publishers and folders, and the live configuration. */
import { Tabs } from "@mantine/core";
import { useSearch } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { ApiKeys } from "./api-keys.tsx";
import { ClientConnections } from "./client-connections.tsx";
import { ConfigSettings } from "./config-settings.tsx";
import { PolicySettings } from "./policy-settings.tsx";
import { Providers } from "./providers.tsx";
import { SigningKeys } from "./signing-keys.tsx";
import { TrustedFolders } from "./trusted-folders.tsx";

const VIEWS: Record<string, { label: string; View: ComponentType }> = {
  providers: { label: "Model providers", View: Providers },
  policy: { label: "Policy", View: PolicySettings },
  keys: { label: "API keys", View: ApiKeys },
  clients: { label: "Clients", View: ClientConnections },
  signing: { label: "Signing keys", View: SigningKeys },
  folders: { label: "Trusted folders", View: TrustedFolders },
  config: { label: "Configuration", View: ConfigSettings },
};

export function SettingsPage() {
  const search = useSearch({ from: "/settings" });
  const setFilters = useSetFilters<typeof search>();
  const view = search.view !== undefined && search.view in VIEWS ? search.view : "providers";
  return (
    <>
      <PageHeader title="Settings" lead="Changes apply immediately and are recorded in the audit log." />
      <Tabs
        value={view}
        onChange={(next) => setFilters({ view: next === "providers" ? undefined : (next ?? undefined) })}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          {Object.entries(VIEWS).map(([value, { label }]) => (
            <Tabs.Tab key={value} value={value}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {Object.entries(VIEWS).map(([value, { View }]) => (
          <Tabs.Panel key={value} value={value}>
            <View />
          </Tabs.Panel>
        ))}
      </Tabs>
    </>
  );
}
