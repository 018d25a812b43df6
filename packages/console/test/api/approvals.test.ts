import type { Client } from "@backplane/client";
import type { Approval, ApprovalStatus } from "@backplane/contract";
import { expect, test } from "vitest";
import { listAnswered } from "../../src/api/approvals.ts";

/** A client that returns pages of approvals with these statuses. The id of an approval is its position. */
function createApprovals(pages: readonly (readonly ApprovalStatus[])[]) {
  const requests: unknown[] = [];
  const list: Client["approvals"]["list"] = async (request) => {
    requests.push(request);
    const at = Number(request?.after ?? 0);
    const items = pages[at]!.map((status, index) => ({ id: `${at}.${index}`, status }) as Approval);
    return { items, next: at + 1 < pages.length ? String(at + 1) : null };
  };
  return { approvals: { list }, requests };
}

const idsOf = ({ items }: { items: readonly Approval[] }) => items.map(({ id }) => id);

test("lists approvals that are no longer pending", async () => {
  const { approvals } = createApprovals([["pending", "approved", "rejected"], ["expired"]]);
  const page = await listAnswered(approvals, {});
  expect(idsOf(page)).toEqual(["0.1", "0.2"]);
  expect(page.next).toBe("1");
  expect(idsOf(await listAnswered(approvals, { after: "1" }))).toEqual(["1.0"]);
});

test("skips pages that hold only pending approvals", async () => {
  const { approvals, requests } = createApprovals([["pending"], ["pending"], ["cancelled"]]);
  expect(await listAnswered(approvals, {})).toMatchObject({ items: [{ id: "2.0" }], next: null });
  expect(requests).toHaveLength(3);
  expect(await listAnswered(createApprovals([["pending"]]).approvals, {})).toEqual({ items: [], next: null });
});
