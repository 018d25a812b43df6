/** Installed packages, available updates and the kernel plugins of the agent host. */
import { Button, Tabs } from "@mantine/core";
import { Link, useSearch } from "@tanstack/react-router";
import { Icon } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { KernelPlugins } from "./kernel-plugins.tsx";
import { PackageList } from "./package-list.tsx";
import { PackageUpdates } from "./package-updates.tsx";

const VIEWS = ["packages", "updates", "kernel"] as const;

export function PluginsPage() {
  const search = useSearch({ from: "/plugins" });
  const setFilters = useSetFilters<typeof search>();
  const view = VIEWS.find((known) => known === search.view) ?? "packages";
  return (
    <>
      <PageHeader
        title="Plugins"
        lead="What is installed, from where, and what it runs. A package does nothing until it is bound."
        actions={
          <Button component={Link} to="/plugins/install" leftSection={<Icon name="plus" size={16} />}>
            Install a plugin
          </Button>
        }
      />
      <Tabs
        value={view}
        onChange={(next) => setFilters({ view: next === "packages" ? undefined : (next ?? undefined) })}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="packages">Packages</Tabs.Tab>
          <Tabs.Tab value="updates">Updates</Tabs.Tab>
          <Tabs.Tab value="kernel">Kernel plugins</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="packages">
          <PackageList text={search.q ?? ""} onText={(q) => setFilters({ q: q === "" ? undefined : q })} />
        </Tabs.Panel>
        <Tabs.Panel value="updates">
          <PackageUpdates />
        </Tabs.Panel>
        <Tabs.Panel value="kernel">
          <KernelPlugins />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
