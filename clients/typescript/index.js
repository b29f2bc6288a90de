// Written by tools/typescript.py from the OpenAPI document of the service. Do not edit.

import { identified, segment, Transport } from "./runtime.js";

export { OnebitError } from "./runtime.js";

export class Client extends Transport {
  async decide(task, body) {
    return this._send({ method: "POST", good: [200], repeatable: true, patient: false }, `/v1/tasks/${segment(task)}/decide`, {}, identified(body));
  }

  async feedback(task, body) {
    return this._send({ method: "POST", good: [200], repeatable: true, patient: false }, `/v1/tasks/${segment(task)}/feedback`, {}, body);
  }

  async stats(task, query = {}) {
    return this._send({ method: "GET", good: [200], repeatable: true, patient: false }, `/v1/tasks/${segment(task)}/stats`, query, undefined);
  }

  async decisions(task, query = {}) {
    return this._send({ method: "GET", good: [200], repeatable: true, patient: false }, `/v1/tasks/${segment(task)}/decisions`, query, undefined);
  }

  async decision(task, id) {
    return this._send({ method: "GET", good: [200], repeatable: true, patient: false }, `/v1/tasks/${segment(task)}/decisions/${segment(id)}`, {}, undefined);
  }

  async explanation(task, query = {}) {
    return this._send({ method: "GET", good: [200], repeatable: true, patient: false }, `/v1/tasks/${segment(task)}/explanation`, query, undefined);
  }

  async item(task, query = {}) {
    return this._send({ method: "GET", good: [200], repeatable: true, patient: false }, `/v1/tasks/${segment(task)}/item`, query, undefined);
  }

  async switch(task, body) {
    return this._send({ method: "POST", good: [202], repeatable: false, patient: true }, `/v1/tasks/${segment(task)}/learner`, {}, body);
  }

  async forget(task, body) {
    return this._send({ method: "POST", good: [200], repeatable: false, patient: true }, `/v1/tasks/${segment(task)}/forget`, {}, body);
  }

  async task(task) {
    return this._send({ method: "GET", good: [200], repeatable: true, patient: false }, `/v1/tasks/${segment(task)}`, {}, undefined);
  }

  async change(task, body) {
    return this._send({ method: "PATCH", good: [200], repeatable: false, patient: true }, `/v1/tasks/${segment(task)}`, {}, body);
  }

  async delete(task) {
    return this._send({ method: "DELETE", good: [200], repeatable: false, patient: true }, `/v1/tasks/${segment(task)}`, {}, undefined);
  }

  async create(body) {
    return this._send({ method: "POST", good: [201], repeatable: false, patient: true }, `/v1/tasks`, {}, body);
  }

  async tasks() {
    return this._send({ method: "GET", good: [200], repeatable: true, patient: false }, `/v1/tasks`, {}, undefined);
  }

  async learners() {
    return this._send({ method: "GET", good: [200], repeatable: true, patient: false }, `/v1/learners`, {}, undefined);
  }

  async healthz() {
    return this._send({ method: "GET", good: [200], repeatable: true, patient: false }, `/healthz`, {}, undefined);
  }

  async readyz() {
    return this._send({ method: "GET", good: [200, 503], repeatable: true, patient: false }, `/readyz`, {}, undefined);
  }

  async version() {
    return this._send({ method: "GET", good: [200], repeatable: true, patient: false }, `/version`, {}, undefined);
  }
}
