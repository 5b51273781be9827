"""An S3 of our own for tests: moto's server, in a process of its own, which checks credentials as S3 does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3
from broker import HOST, free_port

from tests.servers import Server, wait_until_answered

BUCKET = "shop"
REGION = "eu-central-1"
#: Requests without a check, while the user and the bucket are made.
_UNCHECKED = 4
_MAY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": "*"}],
}


@dataclass(frozen=True)
class RunningS3(Server):
    """environment: what a client of it has in its environment, with the credentials of one who may"""

    environment: Mapping[str, str]


@contextmanager
def running_s3(folder: Path) -> Iterator[RunningS3]:
    """An S3 with an empty bucket, and one user who may do all. folder: of its log"""
    port = free_port()
    url = f"http://{HOST}:{port}"
    program = str(Path(sys.executable).parent / "moto_server")
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "-H", HOST, "-p", str(port)],
            env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(_UNCHECKED)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_answered(f"{url}/moto-api/data.json", process, 60.0)
        first = {"endpoint_url": url, "region_name": REGION, "aws_access_key_id": "x", "aws_secret_access_key": "x"}
        iam = boto3.client("iam", **first)
        iam.create_user(UserName="ann")
        iam.put_user_policy(UserName="ann", PolicyName="may", PolicyDocument=json.dumps(_MAY))
        key = iam.create_access_key(UserName="ann")["AccessKey"]
        boto3.client("s3", **first).create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield RunningS3(
            process,
            {
                "AWS_ENDPOINT_URL": url,
                "AWS_DEFAULT_REGION": REGION,
                "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
                # As an operator sets them who wants to hear soon that a store is slow.
                "AWS_MAX_ATTEMPTS": "1",
            },
        )
    finally:
        process.terminate()
        process.wait()
