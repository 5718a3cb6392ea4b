/** Something was refused; the message says what to do. `status` is the HTTP status that the service
 *  has for it: 404 not there, 409 not now, 422 a value that breaks a rule, 0 no usable answer. */
export class AlineError extends Error {
  constructor(status, detail) {
    super(detail);
    this.name = "AlineError";
    this.status = status;
  }
}
