// Only checked, never run: what a program may write, and what it may not.
import { Client, OnebitError, type DecisionReply, type FeedbackReply, type Options } from "../index.js";

const options: Options = { token: null, attempts: 2 };
const client = new Client(new URL("http://127.0.0.1:8000"), options);

export const round = async (): Promise<FeedbackReply> => {
  const one: DecisionReply = await client.decide("tickets", { x: "paper jam", among: ["printer", 3] });
  const many: DecisionReply[] = await client.decide("tickets", [{ x: [1, 2] }, { x: { size: 3 } }]);
  const label: string | number = many[0]?.label ?? one.label;
  const task = await client.create({ name: "tickets", classes: 3, features: { kind: "text", hash_bits: 20 } });
  if (task.features.kind === "numbers") console.log(task.features.size, label);
  return client.feedback("tickets", { id: one.id, right: true });
};

export const code = (error: unknown): string | null => (error instanceof OnebitError ? error.code : null);

// @ts-expect-error x must be there
void client.decide("tickets", {});
// @ts-expect-error there is no such mode
void client.change("tickets", { mode: "sleep" });
// @ts-expect-error an id must be given
void client.explanation("tickets", {});
// @ts-expect-error text has no size
void client.create({ name: "a", classes: 2, features: { kind: "text", size: 3 } });
