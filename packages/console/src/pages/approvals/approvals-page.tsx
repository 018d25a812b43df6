/** Calls that need a person's answer, earlier answers, and the approvals that apply to later calls. */
import { Tabs } from "@mantine/core";
import { useSearch } from "@tanstack/react-router";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { AnsweredApprovals } from "./answered-approvals.tsx";
import { LastingApprovals } from "./lasting-approvals.tsx";
import { PendingApprovalList } from "./pending-approval-list.tsx";

const VIEWS = ["waiting", "answered", "rules"] as const;

export function ApprovalsPage() {
  const search = useSearch({ from: "/approvals" });
  const setFilters = useSetFilters<typeof search>();
  const view = VIEWS.find((known) => known === search.view) ?? "waiting";
  return (
    <>
      <PageHeader
        title="Approvals"
        lead="Calls that need a person's answer. Approving once allows exactly the arguments that are shown."
      />
      <Tabs
        value={view}
        onChange={(next) =>
          setFilters({ view: next === "waiting" ? undefined : (next ?? undefined), id: undefined })
        }
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="waiting">Pending</Tabs.Tab>
          <Tabs.Tab value="answered">Answered</Tabs.Tab>
          <Tabs.Tab value="rules">Rules and session approvals</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="waiting">
          <PendingApprovalList selected={search.id} />
        </Tabs.Panel>
        <Tabs.Panel value="answered">
          <AnsweredApprovals />
        </Tabs.Panel>
        <Tabs.Panel value="rules">
          <LastingApprovals />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
